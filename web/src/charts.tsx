/** Charts as SVG: a curve, a reliability diagram; and a table of shares in colour. */
import type { ComponentChildren, JSX } from "preact";
import type { Curve, Heat, Truth } from "./data";
import { percent } from "./words";

const WIDTH = 520;
const HEIGHT = 280;
const LEFT = 56;
const RIGHT = 16;
const TOP = 16;
const BOTTOM = 46;

type Scale = (value: number) => number;

/** Round numbers that cover a range, some five of them. */
export function ticks(from: number, to: number, wanted = 5): number[] {
  if (!(to > from)) return [from];
  const rough = (to - from) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough) ?? rough;
  const first = Math.ceil(from / step - 1e-9);
  const last = Math.floor(to / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}

/** A number as short as its neighbours on the axis allow. */
function plain(value: number): string {
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) return value.toExponential(0);
  return new Intl.NumberFormat("en", { maximumSignificantDigits: 4 }).format(value);
}

interface FrameProps {
  label: string;
  xLabel: string;
  yLabel: string;
  xs: number[];
  ys: number[];
  x: Scale;
  y: Scale;
  percentX?: boolean;
  percentY?: boolean;
  width?: number;
  children: ComponentChildren;
}

function Frame({ label, xLabel, yLabel, xs, ys, x, y, percentX, percentY, width = WIDTH, children }: FrameProps): JSX.Element {
  const right = width - RIGHT;
  const bottom = HEIGHT - BOTTOM;
  return (
    <svg class="plot" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label}>
      {ys.map((value) => (
        <g key={`y${value}`}>
          <line class="grid" x1={LEFT} x2={right} y1={y(value)} y2={y(value)} />
          <text class="tick" x={LEFT - 8} y={y(value)} text-anchor="end" dominant-baseline="middle">
            {percentY ? percent(value) : plain(value)}
          </text>
        </g>
      ))}
      {xs.map((value) => (
        <text key={`x${value}`} class="tick" x={x(value)} y={bottom + 18} text-anchor="middle">
          {percentX ? percent(value) : plain(value)}
        </text>
      ))}
      <text class="axis" x={(LEFT + right) / 2} y={HEIGHT - 6} text-anchor="middle">
        {xLabel}
      </text>
      <text class="axis" transform={`translate(12 ${(TOP + bottom) / 2}) rotate(-90)`} text-anchor="middle">
        {yLabel}
      </text>
      {children}
    </svg>
  );
}

export function CurveChart({ curve }: { curve: Curve }): JSX.Element {
  const { points, chosen, x_label, y_label } = curve;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [fromX, toX] = range(xs);
  const [fromY, toY] = range(ys);
  const pad = (toY - fromY) * 0.08;
  const x: Scale = (value) => LEFT + ((value - fromX) / (toX - fromX)) * (WIDTH - LEFT - RIGHT);
  const y: Scale = (value) => TOP + ((toY + pad - value) / (toY - fromY + 2 * pad)) * (HEIGHT - TOP - BOTTOM);
  const path = points.map(([px, py], i) => `${i ? "L" : "M"}${x(px).toFixed(1)} ${y(py).toFixed(1)}`).join("");
  const mark = points.find(([px]) => px === chosen);
  return (
    <Frame
      label={`${curve.title}: ${y_label} by ${x_label}${chosen === null ? "" : `; chosen: ${plain(chosen)}`}`}
      xLabel={x_label}
      yLabel={y_label}
      xs={ticks(fromX, toX, 6)}
      ys={ticks(fromY - pad, toY + pad, 4)}
      x={x}
      y={y}
      percentY={curve.percent}
    >
      {chosen !== null && <line class="chosen" x1={x(chosen)} x2={x(chosen)} y1={TOP} y2={HEIGHT - BOTTOM} />}
      <path class="curve" d={path} />
      {points.length <= 40 &&
        points.map(([px, py]) => <circle key={px} class="dot" cx={x(px)} cy={y(py)} r={px === chosen ? 5 : 3} />)}
      {mark && points.length > 40 && <circle class="dot" cx={x(mark[0])} cy={y(mark[1])} r={5} />}
      {chosen !== null && (
        <text
          class="note"
          x={x(chosen) + (x(chosen) > WIDTH * 0.75 ? -8 : 8)}
          y={TOP + 10}
          text-anchor={x(chosen) > WIDTH * 0.75 ? "end" : "start"}
        >
          chosen: {plain(chosen)}
        </text>
      )}
    </Frame>
  );
}

function range(values: readonly number[]): [number, number] {
  const from = Math.min(...values);
  const to = Math.max(...values);
  return to > from ? [from, to] : [from - 0.5, from + 0.5];
}

export function Reliability({ bins }: { bins: Truth["reliability"] }): JSX.Element {
  const width = 420;
  const x: Scale = (value) => LEFT + value * (width - LEFT - RIGHT);
  const y: Scale = (value) => TOP + (1 - value) * (HEIGHT - TOP - BOTTOM);
  const most = Math.max(...bins.map(({ n }) => n), 1);
  const path = bins.map(({ confidence, accuracy }, i) => `${i ? "L" : "M"}${x(confidence)} ${y(accuracy)}`).join("");
  const fifths = [0, 0.2, 0.4, 0.6, 0.8, 1];
  return (
    <Frame
      label="Accuracy of samples by their confidence"
      xLabel="confidence"
      yLabel="accuracy"
      xs={fifths}
      ys={fifths}
      x={x}
      y={y}
      percentX
      percentY
      width={width}
    >
      <line class="diagonal" x1={x(0)} y1={y(0)} x2={x(1)} y2={y(1)} />
      <path class="curve" d={path} />
      {bins.map(({ confidence, accuracy, n }) => (
        <circle key={confidence} class="dot" cx={x(confidence)} cy={y(accuracy)} r={3 + 5 * Math.sqrt(n / most)}>
          <title>
            {n} samples: {percent(confidence)} sure, {percent(accuracy)} right
          </title>
        </circle>
      ))}
    </Frame>
  );
}

export function HeatTable({ heat }: { heat: Heat }): JSX.Element {
  const { xs, ys, shares, chosen, x_label, y_label } = heat;
  const values = shares.flat().filter((share) => share !== null);
  const [from, to] = range(values.length ? values : [0, 1]);
  return (
    <div class="scroll">
      <table class="heat">
        <thead>
          <tr>
            <th class="corner" scope="col">
              {y_label} ↓ {x_label} →
            </th>
            {xs.map((x) => (
              <th key={x} scope="col">
                {plain(x)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {ys.map((y, line) => (
            <tr key={y}>
              <th scope="row">{plain(y)}</th>
              {xs.map((x, column) => {
                const share = shares[line]?.[column] ?? null;
                const isChosen = x === chosen[0] && y === chosen[1];
                const heatOf = share === null ? 0 : (share - from) / (to - from);
                return (
                  <td key={x} class={isChosen ? "chosen" : undefined} style={{ "--heat": `${Math.round(heatOf * 45)}%` }}>
                    {share === null ? <span class="dim">–</span> : percent(share)}
                    {isChosen && <span class="unseen"> (chosen)</span>}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
