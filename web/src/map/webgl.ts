/** Points by WebGL2.
 *
 * Our own, because the page forbids `eval` and blob workers and should stay small: regl (and so regl-scatterplot)
 * compiles with `new Function`, deck.gl's scatter layer weighs some 240 KB gzipped, five times the rest of this page.
 * One buffer, one program and two small textures do what the map needs.
 */
import type { Colour } from "../colours";
import { POINT_BYTES, type Cloud } from "./cloud";
import { DIMMED, type Paint, type Renderer } from "./paint";
import type { View } from "./view";

/** Categories on a line of the palette texture: any number of them fits the smallest texture that WebGL2 allows. */
const LINE = 256;

const VERTEX = `#version 300 es
uniform vec2 scale;      // data to clip space
uniform vec2 shift;
uniform float size;
uniform int measure;     // 0: colour by category, 1: by confidence, 2: by novelty
uniform bool dimmed;     // which of the two passes
uniform vec3 shade;
uniform highp sampler2D palette;
uniform highp sampler2D ramp;
layout(location = 0) in vec2 place;
layout(location = 1) in uint category;
layout(location = 2) in vec2 measures;
flat out vec4 colour;
void main() {
  vec4 own = texelFetch(palette, ivec2(int(category) % ${LINE}, int(category) / ${LINE}), 0);
  bool hidden = (own.a == 0.0) != dimmed;
  vec2 at = place * scale + shift;
  gl_Position = hidden ? vec4(2.0, 2.0, 2.0, 1.0) : vec4(at, 0.0, 1.0);
  gl_PointSize = size;
  float value = measure == 1 ? measures.x : measures.y;
  vec3 ink = measure == 0 ? own.rgb : texelFetch(ramp, ivec2(int(value * 255.0 + 0.5), 0), 0).rgb;
  colour = dimmed ? vec4(shade, ${DIMMED}) : vec4(ink, own.a);
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
uniform float edge;      // width of the soft edge, as a part of the radius
flat in vec4 colour;
out vec4 result;
void main() {
  float distance = length(gl_PointCoord * 2.0 - 1.0);
  float alpha = colour.a * clamp((1.0 - distance) / edge, 0.0, 1.0);
  if (alpha == 0.0) discard;
  result = vec4(colour.rgb * alpha, alpha);
}`;

export class WebGLRenderer implements Renderer {
  readonly name = "webgl2";
  private anyDimmed = false;

  private constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
    private readonly program: WebGLProgram,
    private readonly n: number,
    private readonly lost: (event: Event) => void,
  ) {}

  /** Null where the browser has no WebGL2. */
  static create(canvas: HTMLCanvasElement, cloud: Cloud, lost: () => void): WebGLRenderer | null {
    const gl = canvas.getContext("webgl2", { antialias: false, depth: false, stencil: false });
    const program = gl && link(gl);
    if (gl && !program) queueMicrotask(lost); // this canvas is taken: only a fresh one can be drawn on otherwise
    if (!program) return null;
    gl.useProgram(program);
    gl.bindVertexArray(gl.createVertexArray());
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, cloud.packed, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 2, gl.UNSIGNED_SHORT, true, POINT_BYTES, 0);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribIPointer(1, 1, gl.UNSIGNED_SHORT, POINT_BYTES, 4);
    gl.enableVertexAttribArray(2);
    gl.vertexAttribPointer(2, 2, gl.UNSIGNED_BYTE, true, POINT_BYTES, 6);
    for (const [unit, name] of ["palette", "ramp"].entries()) {
      gl.activeTexture(gl.TEXTURE0 + unit);
      gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
      gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
      gl.uniform1i(gl.getUniformLocation(program, name), unit);
    }
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA); // colours arrive multiplied by their alpha
    const onLost = (event: Event): void => {
      event.preventDefault();
      lost();
    };
    canvas.addEventListener("webglcontextlost", onLost);
    return new WebGLRenderer(canvas, gl, program, cloud.n, onLost);
  }

  load(cloud: Cloud): void {
    this.gl.bufferData(this.gl.ARRAY_BUFFER, cloud.packed, this.gl.STATIC_DRAW);
  }

  paint({ colours, alphas, ramp, measure, shade }: Paint): void {
    this.anyDimmed = alphas.includes(0);
    this.texture(0, LINE, Math.max(1, Math.ceil(colours.length / LINE)), colours, alphas);
    this.texture(1, 256, 1, ramp ?? [], null);
    this.gl.uniform1i(this.uniform("measure"), ramp ? (measure === "confidence" ? 1 : 2) : 0);
    this.gl.uniform3f(this.uniform("shade"), shade[0] / 255, shade[1] / 255, shade[2] / 255);
  }

  draw(view: View, size: number, ratio: number): void {
    const { gl } = this;
    const { scale } = view;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const x = (2 * scale.x) / view.width;
    const y = (2 * scale.y) / view.height;
    gl.uniform2f(this.uniform("scale"), x, y);
    gl.uniform2f(this.uniform("shift"), -view.x * x, -view.y * y);
    const pixels = size * ratio;
    gl.uniform1f(this.uniform("size"), pixels);
    gl.uniform1f(this.uniform("edge"), Math.min(1, 2 / pixels));
    for (const dimmed of this.anyDimmed ? [1, 0] : [0]) {
      gl.uniform1i(this.uniform("dimmed"), dimmed);
      gl.drawArrays(gl.POINTS, 0, this.n);
    }
  }

  /** Milliseconds that a frame takes. Without a graphics card a browser runs WebGL on the processor, and slowly. */
  measure(view: View, size: number, ratio: number): number {
    const finish = (): void => this.gl.readPixels(0, 0, 1, 1, this.gl.RGBA, this.gl.UNSIGNED_BYTE, new Uint8Array(4));
    const frame = (): number => {
      const start = performance.now();
      this.draw(view, size, ratio);
      finish();
      return performance.now() - start;
    };
    frame(); // the first one also compiles
    return Math.min(frame(), frame());
  }

  destroy(): void {
    this.canvas.removeEventListener("webglcontextlost", this.lost);
  }

  private uniform(name: string): WebGLUniformLocation | null {
    return this.gl.getUniformLocation(this.program, name);
  }

  private texture(unit: number, width: number, height: number, colours: readonly Colour[], alphas: Float32Array | null): void {
    const { gl } = this;
    const bytes = new Uint8Array(width * height * 4);
    colours.forEach((colour, i) => bytes.set([...colour, alphas ? Math.round(alphas[i]! * 255) : 255], 4 * i));
    gl.activeTexture(gl.TEXTURE0 + unit);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, width, height, 0, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
  }
}

function link(gl: WebGL2RenderingContext): WebGLProgram | null {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) return null;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (gl.getProgramParameter(program, gl.LINK_STATUS)) return program;
  console.warn(`The map is drawn without WebGL2: ${gl.getProgramInfoLog(program)}`);
  return null;
}
