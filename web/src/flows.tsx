/** Where samples went between two runs, as a picture: categories before on the left, after on the right. */
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { cut } from "./bits";
import { css, type Colour } from "./colours";
import type { Comparison, Side } from "./data";
import { count, isSuggested, number, shownName } from "./words";

type Flow = [number, number, number];

/** Categories drawn on both sides together; more would not be readable. */
const MOST = 30;
const GAP = 7;
/** Room for a name beside a thin category. */
const LINE = 17;

/** Which category before is which after, where Python did not say: the largest flows first, each category once. */
export function pairs({ matches, flows }: Comparison): Map<number, number> {
  if (matches) return new Map(matches);
  const after = new Set<number>();
  const found = new Map<number, number>();
  for (const [from, to] of [...flows].sort((a, b) => b[2] - a[2])) {
    if (found.has(from) || after.has(to)) continue;
    found.set(from, to);
    after.add(to);
  }
  return found;
}

/** The largest flows that leave their category, as many as the picture has room for. */
function largestMoves(comparison: Comparison): { shown: Flow[]; total: number } {
  const same = pairs(comparison);
  const moves = comparison.flows.filter(([from, to, n]) => n > 0 && same.get(from) !== to).sort((a, b) => b[2] - a[2]);
  const left = new Set<number>();
  const right = new Set<number>();
  const shown = moves.filter(([from, to]) => {
    const added = Number(!left.has(from)) + Number(!right.has(to));
    if (left.size + right.size + added > MOST) return false;
    left.add(from);
    right.add(to);
    return true;
  });
  return { shown, total: moves.length };
}

interface Node {
  place: number;
  n: number;
  top: number;
  height: number;
}

/** Categories of one side from top to bottom, each with room for its name. */
function stack(order: readonly number[], amounts: ReadonlyMap<number, number>, scale: number): Node[] {
  let top = 0;
  return order.map((place) => {
    const n = amounts.get(place) ?? 0;
    const height = Math.max(n * scale, 2);
    const room = Math.max(height, LINE);
    const node = { place, n, top: top + (room - height) / 2, height };
    top += room + GAP;
    return node;
  });
}

function sums(flows: readonly Flow[], side: 0 | 1): Map<number, number> {
  const amounts = new Map<number, number>();
  for (const flow of flows) amounts.set(flow[side], (amounts.get(flow[side]) ?? 0) + flow[2]);
  return amounts;
}

/** A band for each flow between two stacks that hardly cross: the right side follows the middles of the left one. */
function layout(flows: readonly Flow[], height: number): { left: Node[]; right: Node[]; bands: { flow: Flow; from: number; to: number; width: number }[] } {
  const before = sums(flows, 0);
  const after = sums(flows, 1);
  const total = [...before.values()].reduce((sum, n) => sum + n, 0);
  const room = height - Math.max(before.size, after.size) * (GAP + 4);
  const scale = Math.max(room, height / 3) / Math.max(total, 1);
  const left = stack([...before.keys()].sort((a, b) => before.get(b)! - before.get(a)!), before, scale);
  const middles = new Map(left.map((node) => [node.place, node.top + node.height / 2]));
  const pull = new Map<number, number>();
  for (const [from, to, n] of flows) pull.set(to, (pull.get(to) ?? 0) + (n * middles.get(from)!) / after.get(to)!);
  const right = stack([...after.keys()].sort((a, b) => pull.get(a)! - pull.get(b)!), after, scale);
  const starts = new Map(left.map((node) => [node.place, node.top]));
  const ends = new Map(right.map((node) => [node.place, node.top]));
  const rank = new Map(right.map((node, i) => [node.place, i]));
  const leftRank = new Map(left.map((node, i) => [node.place, i]));
  const bands = [...flows]
    .sort((a, b) => leftRank.get(a[0])! - leftRank.get(b[0])! || rank.get(a[1])! - rank.get(b[1])!)
    .map((flow) => {
      const width = Math.max(flow[2] * scale, 1);
      const from = starts.get(flow[0])!;
      const to = ends.get(flow[1])!;
      starts.set(flow[0], from + flow[2] * scale);
      ends.set(flow[1], to + flow[2] * scale);
      return { flow, from: from + width / 2, to: to + width / 2, width };
    });
  return { left, right, bands };
}

interface FlowsProps {
  comparison: Comparison;
  /** By place in `before.categories` and `after.categories`. */
  colours: { before: readonly Colour[]; after: readonly Colour[] };
}

export function Flows({ comparison, colours }: FlowsProps): JSX.Element | null {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const { shown, total } = useMemo(() => largestMoves(comparison), [comparison]);
  useEffect(() => {
    if (!box.current) return;
    const element = box.current;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  const { left, right, bands } = useMemo(() => layout(shown, 420), [shown]);
  if (!shown.length) return null;
  const end = Math.max(...[...left, ...right].map(({ top, height }) => top + Math.max(height, LINE))) + 8;
  const names = Math.min(Math.max(width * 0.32, 90), 280);
  const innerLeft = names + 14;
  const innerRight = width - names - 14;
  const bend = (innerRight - innerLeft) * 0.45;
  const { before, after, unit } = comparison;
  return (
    <div class="flows" ref={box} style={{ minHeight: `${end + 40}px` }}>
      <div class="sides">
        <h3>
          Before <bdi class="dim">{before.run}</bdi>
        </h3>
        <h3>
          After <bdi class="dim">{after.run}</bdi>
        </h3>
      </div>
      {width > 0 && (
        <svg width={width} height={end} role="img" aria-label={`${number(shown.length)} largest moves between kinds`}>
          {bands.map(({ flow: [from, to, n], from: y1, to: y2, width: thickness }) => (
            <path
              key={`${from} ${to}`}
              class="band"
              d={`M${innerLeft} ${y1}C${innerLeft + bend} ${y1} ${innerRight - bend} ${y2} ${innerRight} ${y2}`}
              stroke={css(colours.after[to] ?? [128, 128, 128])}
              stroke-width={thickness}
            >
              <title>{`${label(before, from)} → ${label(after, to)}: ${count(n, unit)}`}</title>
            </path>
          ))}
          <Names side={before} nodes={left} colours={colours.before} x={innerLeft} room={names} end={false} />
          <Names side={after} nodes={right} colours={colours.after} x={innerRight} room={names} end />
        </svg>
      )}
      <p class="dim">
        Bands are {unit[1]} that changed their kind; those that stayed are left out.
        {shown.length < total && ` The ${number(shown.length)} largest of ${number(total)} moves are shown.`}
      </p>
    </div>
  );
}

const label = (side: Side, place: number): string => {
  const category = side.categories[place];
  return category ? shownName(category) : "?";
};

interface NamesProps {
  side: Side;
  nodes: readonly Node[];
  colours: readonly Colour[];
  x: number;
  room: number;
  /** Whether names stand to the right of their categories. */
  end: boolean;
}

function Names({ side, nodes, colours, x, room, end }: NamesProps): JSX.Element {
  const letters = Math.floor((room - 34) / 6.9);
  return (
    <g>
      {nodes.map(({ place, n, top, height }) => {
        const name = label(side, place);
        const category = side.categories[place];
        const at = end ? x + 12 : x - 12;
        return (
          <g key={place}>
            <rect x={end ? x : x - 6} y={top} width={6} height={height} rx={2} fill={css(colours[place] ?? [128, 128, 128])} />
            <text x={at} y={top + height / 2} text-anchor={end ? "start" : "end"} dominant-baseline="central">
              <title>{`${name} (${category?.key ?? ""}), ${number(category?.size ?? 0)} in all`}</title>
              <tspan class={category && isSuggested(category) ? "suggested" : undefined}>
                {name.length > letters ? `${cut(name, letters - 1)}…` : name}
              </tspan>
              <tspan class="amount" dx={6}>
                {number(n)}
              </tspan>
            </text>
          </g>
        );
      })}
    </g>
  );
}
