"""The application: routes, assets and the pages of the client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files

import anyio.to_thread
from blake3 import blake3
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kifu.web.analysis import PredictParams, analysis_routes, predict
from kifu.web.api import BusyError, Deadline, error_response, json_response, plain_route
from kifu.web.evaluations import evaluations_routes
from kifu.web.explore import explore, explore_routes
from kifu.web.games import games_routes
from kifu.web.guard import Access, Guard, log_failure
from kifu.web.patterns import Results, SearchParams, patterns_routes, search
from kifu.web.planes import planes_routes
from kifu.web.play import play_routes
from kifu.web.positions import PositionParams
from kifu.web.site import Site
from kifu.web.statistics import statistics_routes

PAGES = ("", "game", "explore", "search", "play", "planes", "corpus", "reports")
"""First parts of the paths of pages. The client shows all of them from one document."""

_TYPES = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}

_FEW = '"row" < 100'
"""The games that are searched when the server starts."""

ROUTES: tuple[Callable[[Site], list[Route]], ...] = (
    games_routes,
    analysis_routes,
    explore_routes,
    patterns_routes,
    play_routes,
    planes_routes,
    statistics_routes,
    evaluations_routes,
)
"""The routes of each module with endpoints."""


def create_app(site: Site, access: Access, failed: Callable[[str, Exception], object] = log_failure) -> Starlette:
    """Return the ASGI application of a site.

    Args:
        access: Hosts and tokens that it accepts.
        failed: Is called with method and path of a request, and the unexpected exception that it raised.
    """
    assets = {path.name: path.read_bytes() for path in files("kifu").joinpath("assets", "web").iterdir()}

    async def about(request: Request) -> Response:
        return json_response(await anyio.to_thread.run_sync(site.about))

    async def nets(request: Request) -> Response:
        try:
            await asyncio.shield(asyncio.wrap_future(site.opening))
        except asyncio.CancelledError:
            raise BusyError("the server stops") from None
        return json_response(site.about_nets())

    async def page(request: Request) -> Response:
        first = request.path_params.get("path", "").partition("/")[0]
        if first not in PAGES:
            return error_response(404, f"there is no page {request.url.path[:80]!r}")
        return _asset(assets, "index.html", request)

    async def asset(request: Request) -> Response:
        return _asset(assets, request.path_params["name"], request)

    routes = [plain_route("/api/site", about), plain_route("/api/nets", nets)]
    routes += [route for each in ROUTES for route in each(site)]
    routes += [Route("/assets/{name}", asset), Route("/{path:path}", page)]
    middleware = [Middleware(Guard, access=access, failed=failed), Middleware(GZipMiddleware, minimum_size=1000)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers={HTTPException: _http_error})


def warm_up(site: Site, deadline: Deadline) -> None:
    """Answer the slow kinds of requests once, so that no visitor waits for libraries to start and kernels to compile.

    Engines are not asked, since they take long or have started already.
    """
    explore(site, PositionParams.model_validate({"moves": "pd", "sql": _FEW}), deadline)
    search(site, Results(), SearchParams.model_validate({"pattern": ". X .", "sql": _FEW}), deadline)
    if site.nets:
        from kifu.learn.predict import Predictor  # imports torch, which takes seconds
    for number, net in enumerate(site.nets):
        deadline.check()
        if isinstance(net.predictor, Predictor):
            width, height = net.predictor.board
            line = {"width": width, "height": height}
            predict(site, PredictParams.model_validate({"line": line, "net": number}))


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer an error of the router, such as a method that a path does not have."""
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, f"{request.method} {request.url.path[:80]!r}: {error.detail}")


def _asset(assets: dict[str, bytes], name: str, request: Request) -> Response:
    data = assets.get(name)
    if data is None:
        return error_response(404, f"there is no asset {name[:80]!r}")
    headers = {"etag": f'"{blake3(data).hexdigest()[:32]}"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=_TYPES["." + name.rpartition(".")[2]], headers=headers)
