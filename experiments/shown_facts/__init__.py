"""LAMA with the fact shown: do methods read it once a reading stage has taught them to?"""
