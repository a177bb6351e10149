// The address is the state of each page: its path names the page, its query all that the page shows.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { address, type Params } from "./api";

export interface Route {
  /** Parts of the path, such as ["game", "0", "17"]. */
  parts: string[];
  query: URLSearchParams;
}

function here(): Route {
  return {
    parts: location.pathname.split("/").filter(Boolean),
    query: new URLSearchParams(location.search),
  };
}

/** Show an address: as a new entry of the history, or in place of the present one. */
export function navigate(target: string, replace = false): void {
  if (replace) history.replaceState(null, "", target);
  else history.pushState(null, "", target);
  dispatchEvent(new PopStateEvent("popstate"));
}

/** Change parameters of the present address; undefined removes one. */
export function setQuery(changes: Params, replace = false): void {
  const query = Object.fromEntries(new URLSearchParams(location.search));
  navigate(address(location.pathname, { ...query, ...changes }), replace);
}

export const RouteContext = createContext<Route>(here());

/** Return the present route. */
export function useRoute(): Route {
  return useContext(RouteContext);
}

/** Follow the address, and handle clicks on links to other pages. */
export function useRouter(): Route {
  const [route, setRoute] = useState(here);
  useEffect(() => {
    const follow = () => setRoute(here());
    const click = (event: MouseEvent) => {
      const link = (event.target as Element).closest?.("a");
      const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
      if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
      if (link.origin !== location.origin || link.pathname.startsWith("/api/")) return;
      event.preventDefault();
      navigate(link.pathname + link.search);
      scrollTo(0, 0);
    };
    addEventListener("popstate", follow);
    document.addEventListener("click", click);
    return () => {
      removeEventListener("popstate", follow);
      document.removeEventListener("click", click);
    };
  }, []);
  return route;
}
