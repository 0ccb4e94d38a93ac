/** In which order kinds are listed. */
import type { JSX } from "preact";
import { useModel, useReport, type Sort } from "./state";

const SORTS: readonly [Sort, string][] = [
  ["size", "Largest first"],
  ["doubt", "Most doubtful first"],
  ["name", "By name"],
];

export function Order(): JSX.Element {
  const model = useModel();
  const sort = useReport((state) => state.sort);
  return (
    <select
      aria-label="Order"
      value={sort}
      onChange={(event) => model.store.set({ sort: event.currentTarget.value as Sort })}
    >
      {SORTS.map(([value, words]) => (
        <option key={value} value={value}>
          {words}
        </option>
      ))}
    </select>
  );
}
