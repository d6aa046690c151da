"use strict";
const nodes = JSON.parse(document.getElementById("data").textContent).nodes;
const detail = document.getElementById("detail");
const matrix = document.querySelector(".matrix");
const cell = document.getElementById("cell");
const ROLES = { word: "word piece", special: "special token", anchor: "anchor", neighbour: "entity", relation: "relation" };
let picked = null;

function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function tell(index) {
  const node = nodes[index];
  const title = element("p", "");
  title.append(element("b", node.label), element("span", ROLES[node.role], "tag " + node.role),
    element("span", "position " + node.position, "tag"), element("span", "sees " + node.sees.length + " of " + nodes.length + " nodes", "tag"));
  detail.replaceChildren(title, ...node.why.map((line) => element("p", line)));
}

function pick(index) {
  picked = index === picked ? null : index;
  const seen = picked === null ? null : new Set(nodes[picked].sees);
  for (const shape of document.querySelectorAll(".graph [data-node]")) {
    const node = Number(shape.dataset.node);
    shape.classList.toggle("picked", node === picked);
    shape.classList.toggle("unseen", seen !== null && !seen.has(node));
  }
  for (const edge of document.querySelectorAll(".graph [data-edge]")) {
    const ends = edge.dataset.edge.split(" ").map(Number);
    edge.classList.toggle("unseen", picked !== null && !ends.includes(picked));
  }
  if (picked !== null) tell(picked);
  cross(picked, null);
}

function cross(row, column) {
  const side = Number(matrix.dataset.side), size = Number(matrix.dataset.cell), length = size * nodes.length;
  const place = (bar, shown, box) => {
    const values = shown ? box : [0, 0, 0, 0];
    ["x", "y", "width", "height"].forEach((name, i) => bar.setAttribute(name, values[i]));
  };
  place(matrix.querySelector(".cross.row"), row !== null, [0, side + row * size, side + length, size]);
  place(matrix.querySelector(".cross.column"), column !== null, [side + column * size, 0, size, side + length]);
}

for (const shape of document.querySelectorAll("[data-node]")) {
  const index = Number(shape.dataset.node);
  const over = (on) => () => {
    for (const twin of document.querySelectorAll(`.graph [data-node="${index}"]`)) twin.classList.toggle("same", on);
    if (on && picked === null) tell(index);
  };
  for (const name of ["mouseenter", "focus"]) shape.addEventListener(name, over(true));
  for (const name of ["mouseleave", "blur"]) shape.addEventListener(name, over(false));
  shape.addEventListener("click", () => pick(index));
  shape.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(index); }
  });
}
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && picked !== null) pick(picked); });

document.getElementById("layers").addEventListener("change", (event) => {
  matrix.querySelector(".cells." + event.target.value).classList.toggle("hidden", !event.target.checked);
});

matrix.addEventListener("mousemove", (event) => {
  const box = matrix.getBoundingClientRect(), scale = matrix.viewBox.baseVal.width / box.width;
  const side = Number(matrix.dataset.side), size = Number(matrix.dataset.cell);
  const at = (value) => Math.floor((value * scale - side) / size);
  const row = at(event.clientY - box.top), column = at(event.clientX - box.left);
  if (row < 0 || column < 0 || row >= nodes.length || column >= nodes.length) { cross(picked, null); cell.textContent = ""; return; }
  const sees = nodes[row].sees.includes(column) ? " sees " : " does not see ";
  const name = (i) => "“" + nodes[i].label + "” (" + ROLES[nodes[i].role] + ")";
  cell.textContent = row === column ? name(row) + " sees itself" : name(row) + sees + name(column);
  cross(row, column);
});
