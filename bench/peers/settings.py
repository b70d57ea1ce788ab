"""What run.py measures: the peers with their settings, and how one launch of each is started."""
import dataclasses
import os
import shutil

KIB, MIB = 1 << 10, 1 << 20


@dataclasses.dataclass(frozen=True)
class Setting:
    """One way to run one library; the best of a column's settings at a size is the column's figure."""
    key: str            # as --settings takes it
    column: str         # of the tables; limit_bench's rows choose between two by their algorithm
    program: str        # beside tutti in the build's bin/
    text: str           # for the report
    arguments: tuple = ()    # of the launcher
    environment: tuple = ()  # pairs
    options: tuple = ()      # of the program


RELEASE_GATHER = tuple((f"MPIR_CVAR_{collective}_POSIX_INTRA_ALGORITHM", "release_gather")
                       for collective in ("ALLREDUCE", "REDUCE", "BCAST", "BARRIER")) + tuple(
    (f"MPIR_CVAR_{collective}_INTRANODE_BUFFER_TOTAL_SIZE", str(MIB)) for collective in ("REDUCE", "BCAST"))

NO_WORKER = (("CCL_ATL_TRANSPORT", "ofi"), ("CCL_ATL_SHM", "1"), ("CCL_WORKER_OFFLOAD", "0"))
SELF_STARTED = "a process per rank; a caller that yields where ranks share cores; "


def as_words(environment):
    return " ".join(f"`{name}={value}`" for name, value in environment)


def ucc_setting(key, algorithm):
    environment = (("UCX_TLS", "self,posix,cma"), ("UCC_TL_UCP_TUNE", f"allreduce:@{algorithm}:inf"))
    return Setting(key, "ucc", "ucc_bench", SELF_STARTED + "persistent collectives posted again: " +
                   as_words(environment), environment=environment)


SETTINGS = {setting.key: setting for setting in (
    Setting("tutti", "tutti", "tutti_bench", "`tutti run`, ordinary memory"),
    Setting("tutti-alloc", "alloc", "tutti_bench", "`tutti run`, memory of `tutti::alloc`, which all ranks can reach",
            options=("--memory", "tutti")),
    Setting("threads", "threads", "tutti_bench",
            "ranks as threads of one process, whose memory all can reach"),
    Setting("openmpi", "openmpi", "mpi_bench_openmpi", "`mpirun --oversubscribe`"),
    Setting("openmpi-ucx", "openmpi", "mpi_bench_openmpi",
            "`mpirun --oversubscribe --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any`",
            ("--mca", "pml", "ucx", "--mca", "pml_ucx_tls", "any", "--mca", "pml_ucx_devices", "any")),
    Setting("mpich", "mpich", "mpi_bench_mpich", "`mpiexec -launcher fork`"),
    Setting("mpich-gather", "mpich", "mpi_bench_mpich",
            "`mpiexec -launcher fork` with its shared-memory release-gather collectives: " +
            as_words(RELEASE_GATHER), (), RELEASE_GATHER),
    Setting("gloo", "gloo", "gloo_bench", "a process per rank, TCP over loopback, sleeping; its default ring and its "
            "halving-doubling"),
    ucc_setting("ucc-knomial", "knomial"),
    ucc_setting("ucc-sra", "sra_knomial"),
    Setting("oneccl", "oneccl", "oneccl_bench", SELF_STARTED + "libfabric, without its worker thread: " +
            as_words(NO_WORKER), environment=NO_WORKER),
    Setting("limit", "staged", "limit_bench", "hand-written references (`bench/peers/reference.h`)"),
)}

# Columns of the tables, and the distribution's packages (or CMake's variables for the prefix) that a column needs.
COLUMNS = {"tutti": "Tutti", "openmpi": "Open MPI", "mpich": "MPICH", "gloo": "Gloo", "ucc": "UCC",
           "oneccl": "oneCCL", "staged": "staged reference",
           "alloc": "Tutti, tutti::alloc", "threads": "Tutti, threads", "mapped": "mapped reference"}
LAUNCHED_BY_TUTTI = ("tutti", "tutti-alloc")
OWN = ("tutti", "alloc", "threads")
PEERS = ("openmpi", "mpich", "gloo", "ucc", "oneccl")
NEEDS = {"openmpi": "packages openmpi-bin libopenmpi-dev", "mpich": "packages mpich libmpich-dev",
         "gloo": "package libgloo-dev", "ucc": "CMake variable TUTTI_UCC_ROOT",
         "oneccl": "CMake variable TUTTI_ONECCL_ROOT"}


def column_of(setting, algorithm):
    return "mapped" if setting.key == "limit" and algorithm.startswith("mapped") else setting.column


def launcher(column):
    """The MPI's own launcher; a plain mpirun may belong to another MPI."""
    names = {"openmpi": ("mpirun.openmpi", "mpirun"), "mpich": ("mpiexec.mpich", "mpiexec.hydra", "mpiexec")}
    return next((path for path in map(shutil.which, names.get(column, ())) if path), None)


def missing(setting, folder):
    """What a setting lacks here, as words; empty when it can run."""
    programs = [setting.program] + (["tutti"] if setting.key in LAUNCHED_BY_TUTTI else [])
    lacking = [name for name in programs if not os.access(os.path.join(folder, name), os.X_OK)]
    if setting.column in ("openmpi", "mpich") and launcher(setting.column) is None:
        lacking.append("launcher")
    return lacking


def clean_environment():
    foreign = ("OMPI_", "PMI_", "PMIX_", "MPIR_", "HYDRA_", "UCX_", "UCC_", "CCL_", "FI_", "SLURM_", "TUTTI_", "GLOO_",
               "MASTER_")
    exact = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign) and name not in exact}


def commands(setting, ranks, given, folder):
    """The processes to start for one launch: pairs of command and environment."""
    program = [os.path.join(given.bin, setting.program), "--page", os.path.join(folder, "page"),
               "--out", os.path.join(folder, "rows"), "--sizes", ",".join(map(str, given.sizes)),
               "--loop-ms", str(given.loop_ms), "--point-ms", str(given.point_ms), "--variants",
               ",".join(given.variants), *setting.options]
    environment = {**clean_environment(), **dict(setting.environment)}
    bind = not given.no_bind
    if setting.key in ("threads", "limit"):
        return [(program + ["--ranks", str(ranks), "--bind", str(int(bind))], environment)]
    if setting.key in LAUNCHED_BY_TUTTI:
        binding = ["--bind"] if bind else []
        return [([os.path.join(given.bin, "tutti"), "run", "-n", str(ranks), *binding, "--", *program], environment)]
    if setting.column == "openmpi":
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        binding = ["--map-by", "core", "--bind-to", "core:overload-allowed"] if bind else []
        return [([launcher("openmpi"), *root, "--oversubscribe", *binding, *setting.arguments, "-np", str(ranks),
                  *program], environment)]
    if setting.column == "mpich":
        if given.priority:  # its launcher makes a session of its own, which starts without the priority
            program = ["sh", "-c", 'echo -20 >/proc/self/autogroup; exec "$@"', "sh", *program]
        binding = ["-bind-to", "core"] if bind else []
        return [([launcher("mpich"), "-launcher", "fork", *binding, *setting.arguments, "-n", str(ranks), *program],
                 environment)]
    if setting.column == "gloo":
        environment["GLOO_STORE"] = os.path.join(folder, "store")
        os.mkdir(environment["GLOO_STORE"])
    else:
        program += ["--bind", str(int(bind))]
    return [(program, {**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks)}) for rank in range(ranks)]
