/** Numbers, names and judgements as words: every sentence that the page makes itself is worded here. */
import type { Category } from "./data";

const NUMBER = new Intl.NumberFormat("en");

export const number = (n: number): string => NUMBER.format(n);

/** "92 %", with a space that does not break; never "100 %" for less than all or "0 %" for more than none. */
export function percent(share: number): string {
  const rounded = Math.round(share * 100);
  const honest = share < 1 && rounded === 100 ? "> 99" : share > 0 && rounded === 0 ? "< 1" : String(rounded);
  return `${honest}\u00a0%`;
}

export const count = (n: number, [one, many]: readonly [string, string]): string => `${number(n)} ${n === 1 ? one : many}`;

/** What a category is called on the page: a person's name, else the suggestion, else the key. */
export function shownName(category: Pick<Category, "key" | "name" | "suggestion">): string {
  return category.name || category.suggestion || category.key || "(empty)";
}

export const isSuggested = (category: Pick<Category, "name" | "suggestion">): boolean =>
  !category.name && !!category.suggestion;

/** How firmly the trainings of the consensus agreed on a category. */
export function stabilityWord(stability: number): string {
  if (stability >= 0.85) return "stable";
  if (stability >= 0.6) return "mostly stable";
  return "unstable";
}

/** A shell's argument. Plain words need no quotes; anything else cannot leave its single quotes. */
export function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`;
}

/** A name that reads well in double quotes where no shell would find a meaning in it. */
export function quotedName(name: string): string {
  return /^[\p{L}\p{N} _.,:;/&()+…-]*$/u.test(name) && !name.startsWith("-") ? `"${name}"` : quoted(name);
}

export function renameCommand(run: string, key: string, name: string): string {
  const dashed = [run, key, name].some((word) => word.startsWith("-")) ? "-- " : "";
  return `newkinds rename ${dashed}${quoted(run)} ${quoted(key)} ${quotedName(name || "…")}`;
}

export function date(iso: string): string {
  const time = new Date(iso);
  if (Number.isNaN(time.getTime())) return iso;
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" }).format(time);
}
