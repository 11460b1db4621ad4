// The settings of a stage, from /config.json. `make publish-web` writes that file for a stage; web/config.json is for
// the local cloud.

export const config = await fetch("/config.json", { cache: "no-cache" })
  .then((response) => (response.ok ? response.json() : {}))
  .catch(() => ({}));

/** Without an issuer the page runs on the local cloud, which accepts any name. */
export const isLocal = !config.issuer;
export const apiUrl = (config.apiUrl || "").replace(/\/$/, "");
export const wsUrl = config.wsUrl || `${location.origin.replace(/^http/, "ws")}/ws`;
