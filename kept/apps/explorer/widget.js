// The page in a frame of its own, without a network; its questions go to the kernel and back.
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "kept explore";
  frame.style.cssText = "display:block;box-sizing:border-box;width:100%;border:1px solid #8886;border-radius:6px";
  frame.height = model.get("height");
  frame.srcdoc = model.get("page");
  const asked = (event) => {
    if (event.source === frame.contentWindow && event.data && event.data.kept) model.send(event.data);
  };
  const answered = (message) => frame.contentWindow?.postMessage(message, "*");
  window.addEventListener("message", asked);
  model.on("msg:custom", answered);
  el.append(frame);
  return () => {
    window.removeEventListener("message", asked);
    model.off("msg:custom", answered);
  };
}
export default { render };
