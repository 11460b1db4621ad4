// The page's language: its words, and how it writes numbers, money and times. The words are in /words.en.js and
// /words.zh.js.

const LANGUAGES = ["en", "zh"];

/** The language from the address (?lang=zh), else the one chosen before, else the browser's. */
export const language = (() => {
  const chosen = new URLSearchParams(location.search).get("lang") || localStorage.getItem("seckill.lang");
  if (LANGUAGES.includes(chosen)) return chosen;
  const preferred = navigator.languages || [navigator.language];
  return preferred.some((one) => one.toLowerCase().startsWith("zh")) ? "zh" : "en";
})();
const locale = language === "zh" ? "zh-CN" : "en";
document.documentElement.lang = locale;

const { default: dictionary } = await import(`/words.${language}.js`);

/** The other language, as a link to it is labelled. */
export const otherLanguage = language === "zh" ? { code: "en", name: "English" } : { code: "zh", name: "中文" };

export function chooseLanguage(next) {
  localStorage.setItem("seckill.lang", next);
  const url = new URL(location.href);
  url.searchParams.delete("lang");
  location.replace(url);
}

/** A function that finds the words of one page: words("shop")("limit", {n: 3}). */
export function words(page) {
  const say = (key, values = {}) =>
    (dictionary[page][key] ?? key).replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
  /** Whether there are words under this key. */
  say.knows = (key) => key in dictionary[page];
  return say;
}

/** What a problem means to the person in front of the page. */
export function problemText(problem) {
  const { problems } = dictionary;
  // Only the issuer knows why a sign-in failed, so its own text is shown as well.
  if (problem.code === "SIGN_IN_FAILED") return `${problems.SIGN_IN_FAILED} ${problem.detail}`;
  return problems[problem.code] || problem.detail || problems.UNAVAILABLE;
}

/** The number of decimals of a currency: 2 for CNY, 0 for JPY. */
export function decimals(currency) {
  try {
    return new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions().maximumFractionDigits;
  } catch {
    return 2;
  }
}

/** An amount in minor units as text: 69900 CNY is ¥699.00. */
export function money(amount, currency) {
  if (amount === null || amount === undefined) return "";
  try {
    const options = { style: "currency", currency, currencyDisplay: "narrowSymbol" };
    return new Intl.NumberFormat(locale, options).format(amount / 10 ** decimals(currency));
  } catch {
    return `${(amount / 100).toFixed(2)} ${currency}`;
  }
}

export const number = (value) => new Intl.NumberFormat(locale).format(value);

export const localTime = (iso) =>
  new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" }).format(new Date(iso));

/** 90061000 ms is 1d 01:01:01. Days and hours are left out where they are zero. */
export function duration(ms) {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const two = (value) => String(value).padStart(2, "0");
  const days = Math.floor(total / 86400);
  const hours = Math.floor(total / 3600) % 24;
  const minutes = Math.floor(total / 60) % 60;
  const minutesAndSeconds = `${two(minutes)}:${two(total % 60)}`;
  const clock = total >= 3600 ? `${two(hours)}:${minutesAndSeconds}` : minutesAndSeconds;
  return days > 0 ? `${days}${language === "zh" ? "天 " : "d "}${clock}` : clock;
}
