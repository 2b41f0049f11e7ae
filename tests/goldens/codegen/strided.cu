// Grid: (1) / 1 blocks of 256 threads.
// Computes
//   in0 : f32[48,64]
//   in1 : f32[48,64]
//   t0 = add(in0, in1) : f32[48,64]
//   out0 <- t0

// N elements that move BYTES at a time.
template <typename T, int N, int BYTES>
struct __align__(BYTES) kiln_vector {
  T at[N];
};

template <int N, int BYTES, typename T>
__device__ __forceinline__ kiln_vector<T, N, BYTES> kiln_load(const T *from) {
  return *reinterpret_cast<const kiln_vector<T, N, BYTES> *>(from);
}

// The instructions are spelled out, because the compiler splits some vectors into their elements.
template <int N, int BYTES, typename T>
__device__ __forceinline__ void kiln_store(T *to, const kiln_vector<T, N, BYTES> &value) {
  unsigned word[(sizeof value + 3) / 4];
  memcpy(word, &value, sizeof value);
#pragma unroll
  for (int i = 0; BYTES >= 8 && i < sizeof value / BYTES; ++i) {
    T *const part = to + i * (BYTES / sizeof(T));
    const unsigned *const w = word + i * (BYTES / 4);
    if (BYTES == 16)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(part), "r"(w[0]), "r"(w[1]),
                   "r"(w[2]), "r"(w[3]));
    else
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(part), "r"(w[0]), "r"(w[1]));
  }
  if (BYTES < 8) *reinterpret_cast<kiln_vector<T, N, BYTES> *>(to) = value;
}

// Where a tile that is contiguous along its rows keeps an element. Each 16 bytes of a column lie at a place
// that depends on the column, so that neither the threads that write 8 columns nor those that read 8 places
// of one meet in a bank.
template <int SIZE, int WIDTH, typename T>
__device__ __forceinline__ int kiln_tile_at(int column, int row) {
  constexpr int chunk = 16 / sizeof(T);
  const int place = row / chunk;
  const int swizzled = place ^ (place >> 3 & 7) ^ (column / WIDTH & 7);
  return column * SIZE + swizzled * chunk + row % chunk;
}

// Copies up to SIZE x SIZE elements to a tile. In memory they are contiguous along
// the columns and are read WIDTH at a time; a thread turns 16 bytes' worth of rows in its registers.
template <int SIZE, int WIDTH, typename T, typename S, typename R, typename C>
__device__ __forceinline__ void kiln_stage(T *tile, const T *from, S stride, R rows, C columns) {
  constexpr int chunk = 16 / sizeof(T), across = SIZE / WIDTH;
  for (int item = threadIdx.x; item < SIZE / chunk * across; item += blockDim.x) {
    const int column = item % across * WIDTH, row = item / across * chunk;
    if (row >= rows || column >= columns) continue;
    kiln_vector<T, WIDTH, WIDTH * sizeof(T)> in[chunk] = {};
#pragma unroll
    for (int i = 0; i < chunk; ++i) {
      if (row + i < rows) in[i] = kiln_load<WIDTH, WIDTH * sizeof(T)>(from + ((row + i) * stride + column));
    }
#pragma unroll
    for (int k = 0; k < WIDTH; ++k) {
      kiln_vector<T, chunk, 16> out;
#pragma unroll
      for (int i = 0; i < chunk; ++i) out.at[i] = in[i].at[k];
      unsigned word[4];
      memcpy(word, &out, 16);
      T *const to = tile + kiln_tile_at<SIZE, WIDTH, T>(column + k, row);
      asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(
                       (unsigned)__cvta_generic_to_shared(to)),
                   "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                   : "memory");
    }
  }
}

// COUNT elements of a tile from one on, along the rows.
template <int SIZE, int WIDTH, int COUNT, typename T>
__device__ __forceinline__ kiln_vector<T, COUNT, sizeof(T)> kiln_unstage(const T *tile, int column, int row) {
  constexpr int chunk = 16 / sizeof(T), part = COUNT < chunk ? COUNT : chunk;
  kiln_vector<T, COUNT, sizeof(T)> result;
#pragma unroll
  for (int i = 0; i < COUNT; i += part) {
    const auto in = kiln_load<part, part * sizeof(T)>(tile + kiln_tile_at<SIZE, WIDTH, T>(column, row + i));
#pragma unroll
    for (int k = 0; k < part; ++k) result.at[i + k] = in.at[k];
  }
  return result;
}

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const float *__restrict__ in0,
    const float *__restrict__ in1,
    float *__restrict__ out0) {
  __shared__ __align__(16) unsigned char kiln_shared[16384];
  // One block for each tile of 64 x 64 points of 64 x 48/4: what is contiguous along a0 passes
  // through shared memory, and is stored along a1.
  unsigned tile = blockIdx.x;
  if (tile >= 1u * 1u) return;
  const int first_row = 0;
  const int first_column = 0;
  const auto rows = 48 - first_row;
  const auto columns = 64 - first_column;
  float *const tile0 = reinterpret_cast<float *>(kiln_shared + 0);
  {
    kiln_stage<64, 4>(tile0, in0 + first_column + 64 * first_row, 64, rows, columns);
  }
  __syncthreads();
  for (int item = threadIdx.x; item < 1024; item += 256) {
    const int row = item % 16 * 4, column = item / 16;
    if (row >= rows || column >= columns) continue;
    const int a1 = (first_row + row) / 4;
    const int a0 = first_column + column;
    const float v0 = in1[a0];
    const auto w1 = kiln_unstage<64, 4, 4>(tile0, column, row);
    kiln_vector<float, 4, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float v2 = w1.at[lane];
      const float v3 = v2 + v0;
      s0.at[lane] = v3;
    }
    kiln_store<4, 16>(out0 + 48 * a0 + 4 * a1, s0);
  }
}

