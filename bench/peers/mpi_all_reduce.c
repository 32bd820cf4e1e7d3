/* Times all-reduces of Open MPI between two processes: the cases of bench/comm/all_reduce_bench.cc. Prints a line of
 * JSON a case. mpicc -O2 mpi_all_reduce.c -o mpi_all_reduce; mpirun -np 2 ./mpi_all_reduce [--smoke] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* text, int count, int repeats, int rank) {
  float* vector = calloc((size_t)count, sizeof(float));
  double* seconds = malloc((size_t)repeats * sizeof(double));
  for (int repeat = -3; repeat < repeats; ++repeat) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, vector, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (repeat >= 0) seconds[repeat] = MPI_Wtime() - start;
  }
  qsort(seconds, (size_t)repeats, sizeof(double), by_value);
  if (rank == 0) {
    printf("{\"case\": \"2 ranks x %s\", \"contender\": \"open mpi\", \"value\": %.4f, \"unit\": \"us\", \"samples\": %d}\n",
           text, 1e6 * seconds[repeats / 2], repeats);
  }
  free(vector);
  free(seconds);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1 && strcmp(argv[1], "--smoke") == 0) {
    measure("1 KiB", 256, 5, rank);
  } else {
    measure("8 bytes", 2, 10000, rank);
    measure("4 KiB", 1 << 10, 5000, rank);
    measure("64 KiB", 1 << 14, 1000, rank);
    measure("1 MiB", 1 << 18, 200, rank);
    measure("4 MiB", 1 << 20, 60, rank);
    measure("40 MiB", 10 << 20, 12, rank);
  }
  MPI_Finalize();
  return 0;
}
