"""The curve is that of scikit-learn, which kept does not need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entity_linking.calibration.isotonic import isotonic_knots

ANSWERS = st.lists(
    st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.booleans()), min_size=2, max_size=60
)


@given(answers=ANSWERS, least=st.sampled_from([0.0, 0.05]))
def test_it_is_the_curve_of_scikit_learn(answers: list[tuple[float, bool]], least: float) -> None:
    module = pytest.importorskip("sklearn.isotonic")
    sure, right = (np.array(column, np.float64) for column in zip(*answers, strict=True))
    fitted = module.IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip")
    fitted.fit(sure, right)
    x, y = zip(*isotonic_knots(sure, right, least=least, most=1 - least), strict=True)
    grid = np.linspace(-0.1, 1.1, 200)
    np.testing.assert_allclose(np.interp(grid, x, y), fitted.predict(grid), atol=1e-12)
    assert list(x) == sorted(set(x))
    assert list(y) == sorted(y)
