// Opens a trace in Perfetto's own page: its bytes go from this browser to that window, and over no network.
// https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui

export const PERFETTO = "https://ui.perfetto.dev";
const KNOCK_MS = 200;
const PATIENCE_MS = 60e3;

// `window_`: opened by the click already; `fetched`: a promise of { buffer, name }.
export async function hand(window_, fetched, title) {
  const [{ buffer, name }] = await Promise.all([fetched, answered(window_)]);
  window_.postMessage({ perfetto: { buffer, title, fileName: name, keepApiOpen: false } }, PERFETTO, [buffer]);
}

// Resolves when the window answers; it cannot say by itself that it is ready.
function answered(window_) {
  return new Promise((resolve, reject) => {
    const knock = setInterval(() => window_.closed ? stop(reject, new Error("Perfetto's tab was closed")) : window_.postMessage("PING", PERFETTO), KNOCK_MS);
    const patience = setTimeout(() => stop(reject, new Error(`${PERFETTO} does not answer: can this browser reach it?`)), PATIENCE_MS);
    const heard = ({ origin, data }) => origin === PERFETTO && data === "PONG" && stop(resolve);
    const stop = (then, value) => {
      clearInterval(knock);
      clearTimeout(patience);
      removeEventListener("message", heard);
      then(value);
    };
    addEventListener("message", heard);
  });
}
