/** A component that is drawn again only when its properties change (Preact's own lives in its larger compat part). */
import { Component, createElement, type ComponentChild, type FunctionComponent, type VNode } from "preact";

export function memo<Props extends object>(render: FunctionComponent<Props>): (props: Props) => VNode<Props> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const now = this.props as Record<string, unknown>;
      const then = next as Record<string, unknown>;
      return Object.keys({ ...now, ...then }).some((name) => !Object.is(now[name], then[name]));
    }
    override render(): ComponentChild {
      return createElement(render, this.props);
    }
  }
  return (props) => createElement(Memo, props) as VNode<Props>;
}
