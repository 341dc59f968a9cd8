// Light, dark, or as the system is. Read before anything is drawn, so it is a script of its own.

const KEPT = "switchboard-theme";

function read() {
  try {
    return localStorage.getItem(KEPT) ?? "";
  } catch {
    return "";
  }
}

function apply(theme) {
  if (theme === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

apply(read());
const select = document.getElementById("theme");
select.value = read();
select.addEventListener("change", () => {
  try {
    localStorage.setItem(KEPT, select.value);
  } catch {
    // Then it holds for this tab until it is reloaded.
  }
  apply(select.value);
});
