/** A list of samples beside the map: of a kind, of a search, or like others. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { number } from "../words";
import { useLive, useStudio } from "./model";
import { Samples } from "./samples";

export function Drawer(): JSX.Element | null {
  const studio = useStudio();
  const listing = useLive((state) => state.listing);
  const heading = useRef<HTMLHeadingElement>(null);
  const of = listing?.of;
  useEffect(() => {
    if (of) heading.current?.focus({ preventScroll: true });
  }, [of]);
  if (!listing) return null;
  const { title, rows, total, note, busy } = listing;
  const close = (): void => studio.live.set({ listing: null });
  return (
    <aside class="drawer" aria-labelledby="list-heading" id="list">
      <header>
        <h2 id="list-heading" ref={heading} tabIndex={-1}>
          <bdi>{title}</bdi> <span class="count">{busy && !rows.length ? "…" : `${number(total)} ${note}`}</span>
        </h2>
        <button type="button" class="quiet" aria-label="Close the list" onClick={close}>
          ✕
        </button>
      </header>
      <p class="drawer-tools">
        {"kind" in listing.of && (
          <select
            aria-label="Order of the list"
            value={listing.of.order}
            onChange={(event) => {
              const order = event.currentTarget.value as "doubtful" | "typical";
              if ("kind" in listing.of) void studio.list(title, { kind: listing.of.kind, order });
            }}
          >
            <option value="doubtful">Doubtful first</option>
            <option value="typical">Typical first</option>
          </select>
        )}
        <button type="button" class="quiet" disabled={!rows.length} onClick={() => studio.select([...studio.live.get().selection, ...rows])}>
          Select {number(rows.length)}
        </button>
      </p>
      {!busy && !rows.length && <p class="dim">Nothing was found.</p>}
      {rows.length > 0 && <Samples rows={rows} label={title} sure kinds={!("kind" in listing.of)} />}
      {rows.length < total && (
        <button type="button" class="quiet show-all" disabled={busy} onClick={() => void studio.listMore()}>
          {busy ? "Loading …" : "Show more"}
        </button>
      )}
    </aside>
  );
}
