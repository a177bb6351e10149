// What the server serves, and which of its catalogues the user looks at.
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Net, Site } from "./api";
import { useRoute } from "./router";

export const SiteContext = createContext<Site>({ corpora: [], nets: null });

/** Return catalogues and nets of the server. */
export function useSite(): Site {
  return useContext(SiteContext);
}

/** Return the nets of the server. While it opens them, there are none and `opening` is true. */
export function useNets(): { nets: Net[]; opening: boolean } {
  const { nets } = useSite();
  return { nets: nets ?? [], opening: nets === null };
}

/** Return the number of the chosen catalogue, the parameter `corpus` of the address. */
export function useCorpus(): number {
  const chosen = Number(useRoute().query.get("corpus") ?? 0);
  return chosen in useSite().corpora ? chosen : 0;
}
