// Tables are sorted by a click on a column's name; a link to a folded part opens it.
"use strict";
const NUMBER = /^[±+]?(-?[\d,]*\.?\d+)/;
const number = text => { const found = NUMBER.exec(text); return found ? Number(found[1].replaceAll(",", "")) : NaN; };
const order = (a, b) => {
  const [x, y] = [number(a), number(b)];
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.localeCompare(b);
  return x - y;
};
function sort(table, column) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const up = heads[column].getAttribute("aria-sort") !== "ascending";
  heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : up ? "ascending" : "descending"));
  const text = row => row.cells[column].textContent;
  const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * order(text(a), text(b)));
  body.append(...rows);
}
for (const table of document.querySelectorAll("table.sorted")) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
}
const unfold = () => {
  const part = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (part?.tagName === "DETAILS") part.open = true;
};
addEventListener("hashchange", unfold);
unfold();
