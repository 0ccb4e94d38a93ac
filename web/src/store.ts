/** A store: one value, changed by patches, watched by components. The studio uses the same one with more in it. */
import { useEffect, useRef, useState } from "preact/hooks";

export interface Store<State> {
  get(): State;
  set(patch: Partial<State>): void;
  /** Calls `listener` after every change until the returned function is called. */
  subscribe(listener: () => void): () => void;
}

export function createStore<State extends object>(initial: State): Store<State> {
  let state = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => state,
    set(patch) {
      state = { ...state, ...patch };
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/** What `pick` takes from the state; the component is drawn again only when that changes. */
export function useStore<State, Value>(store: Store<State>, pick: (state: State) => Value): Value {
  const value = pick(store.get());
  const latest = useRef({ pick, value });
  latest.current = { pick, value };
  const [, redraw] = useState(0);
  useEffect(() => {
    const check = (): void => {
      const { pick, value } = latest.current;
      if (!Object.is(pick(store.get()), value)) redraw((n) => n + 1);
    };
    check(); // the state may have changed between drawing and this effect
    return store.subscribe(check);
  }, [store]);
  return value;
}
