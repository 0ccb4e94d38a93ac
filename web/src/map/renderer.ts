/** Chooses what draws the points: WebGL2, or a canvas where there is none or it is not wanted. */
import { CanvasRenderer } from "./canvas";
import type { Cloud } from "./cloud";
import type { Renderer } from "./paint";
import type { SceneOptions } from "./scene";
import { WebGLRenderer } from "./webgl";

export function createRenderer(canvas: HTMLCanvasElement, cloud: Cloud, { wanted, lost }: SceneOptions): Renderer {
  return (wanted !== "canvas" && WebGLRenderer.create(canvas, cloud, lost)) || new CanvasRenderer(canvas, cloud);
}
