# The public names of kifu. lazy_loader reads this list at run time; type checkers and the API reference read it, too.

# Records
from .corpus.sources import read as read
from .assets import sample_path as sample_path
from .records.game import (
    Game as Game,
    read_games as read_games,
    read_sgf as read_sgf,
    write_sgf as write_sgf,
)
from .records.meta import Result as Result
from .records.ranks import Rank as Rank

# Rules of Go
from .go.board import Board as Board
from .go.rules import Rules as Rules

# Corpus
from .corpus.ingest import ingest as ingest
from .corpus.update import append as append, compact as compact
from .corpus.catalogue import Catalogue as Catalogue, open_catalogue as open_catalogue
from .corpus.cleaning import CleaningRules as CleaningRules, load_cleaning_rules as load_cleaning_rules
from .corpus.splits import split as split
from .leaks.audit import audit as audit
from .corpus.stats import stats as stats
from .corpus.query import query as query

# Search
from .search.build import build_index as build_index
from .search.notation import parse_pattern as parse_pattern
from .search.pattern import Pattern as Pattern
from .search.position import Position as Position, parse_position as parse_position
from .search.searcher import Searcher as Searcher

# Data sets
from .recipes.schema import load_recipe as load_recipe
from .recipes.pipeline import build as build
from .publication.publish import publish as publish
from .publication.reproduce import reproduce as reproduce
from .datasets.formats import open as open
from .datasets.loader import Loader as Loader, load as load
from .datasets.epoch_plan import LoaderConfig as LoaderConfig
from .datasets.mixture import Mixture as Mixture
from .datasets.filter import PositionFilter as PositionFilter
from .planes.encoder import encode as encode
from .planes.features import feature as feature

# Networks: these require torch
from .learn.train import train as train
from .learn.annotate import annotate as annotate
from .learn.evaluate import evaluate as evaluate
from .learn.net import open_net as open_net
from .learn.evaluation import Evaluation as Evaluation

# Registries
from .planes.registry import FEATURES as FEATURES, PLANE_SETS as PLANE_SETS
from .datasets.formats import FORMATS as FORMATS

# Errors
from .errors import (
    ClusterError as ClusterError,
    DropReason as DropReason,
    FormatError as FormatError,
    GameError as GameError,
    IllegalMove as IllegalMove,
    KifuError as KifuError,
    MissingExtra as MissingExtra,
    OutputError as OutputError,
    RecipeError as RecipeError,
    RecordError as RecordError,
    SourceError as SourceError,
)

__version__: str
