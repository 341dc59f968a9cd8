// Light, dark, or the system's theme. A script of its own, because it runs before anything is drawn.

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
    // Without storage the theme applies to this tab until it is reloaded.
  }
  apply(select.value);
});
