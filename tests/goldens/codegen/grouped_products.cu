// Grid: (1) / 1 blocks of 64 threads.
// Computes, for many members with sizes of their own,
//   in0 : f16[S0,S2]
//   in1 : f16[S1,S2]
//   in2 : f16[S1]
//   t0 = gemm_rcr_bias(in0, in1, in2) : f16[S0,S1]
//   out0 <- t0
// n0 = S0
// n1 = S1
// n2 = S2
// n3 = S4
// n4 = S5
// n5 = S3

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

__device__ __forceinline__ float kiln_float_from_f16(unsigned short bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ __forceinline__ unsigned short kiln_f16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Where element `inner` of row `outer` of a tile lies. Rows have INNER elements in chunks of 16 bytes, which
// change places from row to row, so that the same chunk of eight neighbouring rows is in eight places: no
// two of them share a bank.
template <int INNER, int CHUNK>
__device__ __forceinline__ int kiln_slot(int outer, int inner) {
  constexpr int chunks = INNER / CHUNK, turn = chunks < 8 ? 8 / chunks : 1, places = chunks < 8 ? chunks : 8;
  const int chunk = (inner / CHUNK) ^ (outer / turn % places);
  return outer * INNER + chunk * CHUNK + inner % CHUNK;
}

// The first `bytes` of them; then zeros, for which nothing is read.
template <int BYTES>
__device__ __forceinline__ void kiln_copy_async_part(void *to, const void *from, unsigned bytes) {
  const unsigned place = (unsigned)__cvta_generic_to_shared(to);
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(place), "l"(from), "r"(bytes),
                 "n"(BYTES)
                 : "memory");
}

__device__ __forceinline__ void kiln_copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until at most LEFT groups of copies are under way.
template <int LEFT>
__device__ __forceinline__ void kiln_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Four matrices of 8 rows of 16 bytes; lane l points at row l % 8 of matrix l / 8.
template <int INNER, bool TRANSPOSED, typename T>
__device__ __forceinline__ void kiln_load_matrices(unsigned (&out)[4], const T *tile, int outer, int inner) {
  const T *const row = tile + kiln_slot<INNER, 16 / sizeof(T)>(outer, inner);
  const unsigned from = (unsigned)__cvta_generic_to_shared(row);
  if (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(from) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void kiln_multiply_f16(float (&total)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
               : "+f"(total[0]), "+f"(total[1]), "+f"(total[2]), "+f"(total[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void kiln_store_pair(float *to, float first, float second) {
  *reinterpret_cast<float2 *>(to) = make_float2(first, second);
}

struct kiln_member {
  const unsigned short *in0;
  const unsigned short *in1;
  const unsigned short *in2;
  unsigned short *out0;
  int n0;
  int n1;
  int n2;
  int n3;
  int n4;
  int n5;
  int a_width; // elements of an access
  int b_width; // elements of an access
  int width; // elements of an access
};

// first[i]: blocks of all members before i.
struct kiln_members {
  unsigned count, first[8 + 1];
  kiln_member rows[8];
};

extern "C" __global__ void __launch_bounds__(64, 1) kiln_contraction(
    const __grid_constant__ kiln_members table) {
  for (unsigned round = 0;; ++round) { // there and back: who began first comes last
    const unsigned place = round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    const unsigned turn = round * gridDim.x + place;
    if (turn >= table.first[table.count]) break;
    unsigned low = 0, high = table.count;
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      if (table.first[middle] <= turn)
        low = middle;
      else
        high = middle;
    }
    const unsigned block = turn - table.first[low];
    const kiln_member &member_of_block = table.rows[low];
    const unsigned short *__restrict__ const in0 = member_of_block.in0;
    const unsigned short *__restrict__ const in1 = member_of_block.in1;
    const unsigned short *__restrict__ const in2 = member_of_block.in2;
    unsigned short *__restrict__ const out0 = member_of_block.out0;
    const int n0 = member_of_block.n0;
    const int n1 = member_of_block.n1;
    const int n2 = member_of_block.n2;
    const int n3 = member_of_block.n3;
    const int n4 = member_of_block.n4;
    const int n5 = member_of_block.n5;
    const int a_width = member_of_block.a_width;
    const int b_width = member_of_block.b_width;
    const int width = member_of_block.width;
    // A block makes 32 x 16 results, 32 of K at a time, 4 steps of it in shared memory.
    // 2 x 1 warps, each 16 x 16 by m16n8k16.
    extern __shared__ __align__(16) unsigned char kiln_shared[];
    const int tiles_m = (n0 + 31) / 32, tiles_n = (n1 + 15) / 16;
    const int tile_m = block % tiles_m, tile_n = block / tiles_m % tiles_n;
    const int batch = block / tiles_m / tiles_n;
    unsigned short *const stages = reinterpret_cast<unsigned short *>(kiln_shared);
    float *const sums = reinterpret_cast<float *>(kiln_shared); // in their place, after the loop
    int steps = (int)((n2 + 31) / 32);
    asm("" : "+r"(steps)); // is kept: the compiler would compute it in every step
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_m = warp / 1 * 16, warp_n = warp % 1 * 16;
    float total[1][2][4] = {};
    // Starts the copies of one step of K; every call is one group of copies, an empty one past the end.
    auto load = [&](int step) {
      if (step < steps) {
        unsigned short *const a_stage = stages + step % 4 * 1536, *const b_stage = a_stage + 1024;
        if (a_width == 8) {
          // a: copied, 8 elements along k at a time.
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int piece = i * 64 + threadIdx.x, row = piece / 4, column = piece % 4;
            const int m = tile_m * 32 + row, k_by_8 = step * 4 + column;
            unsigned short *const to = a_stage + kiln_slot<32, 8>(row, column * 8);
            kiln_copy_async_part<16>(to, in0 + (n3 * m + 8 * k_by_8), m < n0 && 8 * k_by_8 < n2 ? 16 : 0);
          }
        } else {
          // a: copied, 4 elements along k at a time.
          #pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int piece = i * 64 + threadIdx.x, row = piece / 8, column = piece % 8;
            const int m = tile_m * 32 + row, k_by_4 = step * 8 + column;
            unsigned short *const to = a_stage + kiln_slot<32, 8>(row, column * 4);
            kiln_copy_async_part<8>(to, in0 + (n3 * m + 4 * k_by_4), m < n0 && 4 * k_by_4 < n2 ? 8 : 0);
          }
        }
        if (b_width == 8) {
          // b: copied, 8 elements along k at a time.
          #pragma unroll
          for (int i = 0; i < 1; ++i) {
            const int piece = i * 64 + threadIdx.x, row = piece / 4, column = piece % 4;
            const int n = tile_n * 16 + row, k_by_8 = step * 4 + column;
            unsigned short *const to = b_stage + kiln_slot<32, 8>(row, column * 8);
            kiln_copy_async_part<16>(to, in1 + (n4 * n + 8 * k_by_8), n < n1 && 8 * k_by_8 < n2 ? 16 : 0);
          }
        } else {
          // b: copied, 4 elements along k at a time.
          #pragma unroll
          for (int i = 0; i < 2; ++i) {
            const int piece = i * 64 + threadIdx.x, row = piece / 8, column = piece % 8;
            const int n = tile_n * 16 + row, k_by_4 = step * 8 + column;
            unsigned short *const to = b_stage + kiln_slot<32, 8>(row, column * 4);
            kiln_copy_async_part<8>(to, in1 + (n4 * n + 4 * k_by_4), n < n1 && 4 * k_by_4 < n2 ? 8 : 0);
          }
        }
      }
      kiln_copy_commit();
    };
    #pragma unroll
    for (int step = 0; step < 3; ++step) load(step);
    for (int step = 0; step < steps; ++step) {
      kiln_copy_wait<2>();
      __syncthreads();
      load(step + 3);
      const unsigned short *const a_tile = stages + step % 4 * 1536, *const b_tile = a_tile + 1024;
      #pragma unroll
      for (int k = 0; k < 32; k += 16) {
        unsigned a[1][4], b[1][4];
        #pragma unroll
        for (int i = 0; i < 1; ++i)
          kiln_load_matrices<32, false>(a[i], a_tile, warp_m + 16 * i + lane % 16, k + lane / 16 * 8);
        #pragma unroll
        for (int j = 0; j < 1; ++j)
          kiln_load_matrices<32, false>(b[j], b_tile, warp_n + 16 * j + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8);
        #pragma unroll
        for (int i = 0; i < 1; ++i)
        #pragma unroll
          for (int j = 0; j < 2; ++j)
            kiln_multiply_f16(total[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
      }
    }
    kiln_copy_wait<0>();
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 1; ++i)
    #pragma unroll
      for (int j = 0; j < 2; ++j) {
        float *const to = sums + (warp_m + 16 * i + lane / 4) * 24 + warp_n + 8 * j + lane % 4 * 2;
        kiln_store_pair(to, total[i][j][0], total[i][j][1]);
        kiln_store_pair(to + 8 * 24, total[i][j][2], total[i][j][3]);
      }
    __syncthreads();
    if (width == 8) {
      // One thread for 8 neighbouring elements along n.
      for (int piece = threadIdx.x; piece < 64; piece += 64) {
        const int m = tile_m * 32 + piece / 2, n_by_8 = tile_n * 2 + piece % 2;
        if (m >= n0 || 8 * n_by_8 >= n1) continue;
        const auto w0 = kiln_load<8, 16>(sums + 24 * m + 8 * n_by_8 - 768 * tile_m - 16 * tile_n);
        const auto w1 = kiln_load<8, 16>(in2 + 8 * n_by_8);
        kiln_vector<unsigned short, 8, 16> s0;
        #pragma unroll
        for (int lane = 0; lane < 8; ++lane) {
          const float v2 = w0.at[lane];
          const unsigned short v3 = w1.at[lane];
          const float f3 = kiln_float_from_f16(v3);
          const float v4 = v2 + f3;
          const unsigned short v5 = kiln_f16(v4);
          s0.at[lane] = v5;
        }
        kiln_store<8, 16>(out0 + n5 * m + 8 * n_by_8, s0);
      }
    } else {
      // One thread for 1 neighbouring element along n.
      for (int piece = threadIdx.x; piece < 512; piece += 64) {
        const int m = tile_m * 32 + piece / 16, n = tile_n * 16 + piece % 16;
        if (m >= n0 || 1 * n >= n1) continue;
        const float v0 = sums[24 * m + n - 768 * tile_m - 16 * tile_n];
        const unsigned short v1 = in2[n];
        const float f1 = kiln_float_from_f16(v1);
        const float v2 = v0 + f1;
        const unsigned short v3 = kiln_f16(v2);
        out0[n5 * m + n] = v3;
      }
    }
    __syncthreads(); // before the next member's tile
  }
}

