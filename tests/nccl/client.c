/* A program made for NCCL: it knows nothing of Tutti, and is compiled against whatever nccl.h it is given.
 *
 * usage: client threads N      N ranks in this process, one thread, in groups
 *        client processes N    N processes, which share an id through a pipe
 *        client leave N        the same, but they end with their communicators alive */
#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 1000

#define CHECK(call)                                                                                \
  do {                                                                                             \
    ncclResult_t outcome = (call);                                                                 \
    if (outcome != ncclSuccess) {                                                                  \
      fprintf(stderr, "%s: %s: %s\n", #call, ncclGetErrorString(outcome), ncclGetLastError(NULL)); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

#define EXPECT(condition)                                         \
  do {                                                            \
    if (!(condition)) {                                           \
      fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
      exit(1);                                                    \
    }                                                             \
  } while (0)

static double sum_of(int size, int i) { return size * (size + 1) / 2.0 * (i + 1); }

static void fill(double* data, int rank) {
  for (int i = 0; i < COUNT; ++i) data[i] = (double)(rank + 1) * (i + 1);
}

static void run_threads(int size) {
  ncclComm_t comms[16];
  static double in[16][COUNT], out[16][COUNT];
  CHECK(ncclCommInitAll(comms, size, NULL));
  CHECK(ncclGroupStart());
  for (int rank = 0; rank < size; ++rank) {
    fill(in[rank], rank);
    CHECK(ncclAllReduce(in[rank], out[rank], COUNT, ncclDouble, ncclSum, comms[rank], NULL));
  }
  CHECK(ncclGroupEnd());
  for (int rank = 0; rank < size; ++rank)
    for (int i = 0; i < COUNT; ++i) EXPECT(out[rank][i] == sum_of(size, i));
  for (int rank = 0; rank < size; ++rank) CHECK(ncclCommDestroy(comms[rank]));
}

static void run_rank(int rank, int size, const ncclUniqueId* id, int leave) {
  ncclComm_t comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  static double data[COUNT];
  double *memory, left = -1;
  int count = 0, own = -1;
  ncclResult_t state;

  config.commName = "client";
  CHECK(ncclCommInitRankConfig(&comm, size, *id, rank, &config));
  CHECK(ncclCommCount(comm, &count));
  CHECK(ncclCommUserRank(comm, &own));
  EXPECT(count == size && own == rank);

  fill(data, rank);
  CHECK(pncclAllReduce(data, data, COUNT, ncclDouble, ncclSum, comm, NULL));
  for (int i = 0; i < COUNT; ++i) EXPECT(data[i] == sum_of(size, i));

  CHECK(ncclMemAlloc((void**)&memory, sizeof(double) * (size_t)size));
  memory[rank] = rank + 0.5;
  CHECK(ncclAllGather(memory + rank, memory, 1, ncclDouble, comm, NULL));
  for (int i = 0; i < size; ++i) EXPECT(memory[i] == i + 0.5);

  CHECK(ncclGroupStart());
  CHECK(ncclSend(memory + rank, 1, ncclDouble, (rank + 1) % size, comm, NULL));
  CHECK(ncclRecv(&left, 1, ncclDouble, (rank + size - 1) % size, comm, NULL));
  CHECK(ncclGroupEnd());
  EXPECT(left == (rank + size - 1) % size + 0.5);

  CHECK(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclSuccess);
  if (leave) return;
  CHECK(ncclMemFree(memory));
  CHECK(ncclCommFinalize(comm));
  CHECK(ncclCommDestroy(comm));
}

/* The id goes from rank 0 to the others through a pipe. */
static void run_process(int rank, int size, const int* pipe_ends, int leave) {
  ncclUniqueId id;
  if (rank == 0) {
    CHECK(ncclGetUniqueId(&id));
    for (int other = 1; other < size; ++other) EXPECT(write(pipe_ends[1], &id, sizeof id) == sizeof id);
  } else {
    EXPECT(read(pipe_ends[0], &id, sizeof id) == sizeof id);
  }
  run_rank(rank, size, &id, leave);
}

static void run_processes(int size, int leave) {
  int pipe_ends[2], failures = 0;
  EXPECT(pipe(pipe_ends) == 0);
  for (int rank = 0; rank < size; ++rank) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      run_process(rank, size, pipe_ends, leave);
      exit(0);
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    EXPECT(wait(&status) > 0);
    if (status != 0) ++failures;
  }
  EXPECT(failures == 0);
}

int main(int argc, char** argv) {
  int version = 0, size = argc == 3 ? atoi(argv[2]) : 0;
  EXPECT(size >= 1 && size <= 16);
  CHECK(ncclGetVersion(&version));
  EXPECT(version == NCCL_VERSION_CODE);
  if (strcmp(argv[1], "threads") == 0)
    run_threads(size);
  else
    run_processes(size, strcmp(argv[1], "leave") == 0);
  printf("ok: %d %s\n", size, argv[1]);
  return 0;
}
