// Waits until this browser is signed in: the first frame of the server has its role.

export function signedIn() {
  return new Promise((done) => {
    const isIn = () => document.body.dataset.role !== undefined;
    if (isIn()) return done();
    const observer = new MutationObserver(() => {
      if (!isIn()) return;
      observer.disconnect();
      done();
    });
    observer.observe(document.body, { attributes: true, attributeFilter: ["data-role"] });
  });
}
