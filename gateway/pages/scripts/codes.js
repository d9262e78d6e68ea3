// Recovery codes, copied and printed. Without this script they are text.
for (const actions of document.querySelectorAll("[data-codes]")) {
  const copy = actions.querySelector("[data-copy]");
  if (navigator.clipboard) {
    copy.addEventListener("click", () => {
      const codes = [...document.querySelectorAll("#" + copy.dataset.copy + " code")].map((code) => code.textContent);
      navigator.clipboard.writeText(codes.join("\n") + "\n");
    });
  } else {
    copy.hidden = true;
  }
  actions.querySelector("[data-print]").addEventListener("click", () => window.print());
  actions.hidden = false;
}
