// Grid: (5120) / 1024 blocks of 256 threads.
// Computes
//   in0 : f32[64,24]
//   in1 : f32[64,40]
//   t0 = exp(in1) : f32[64,40]
//   t1 = cat(in0, t0) : f32[64,64]
//   out0 <- t1

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

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const float *__restrict__ in0,
    const float *__restrict__ in1,
    float *__restrict__ out0) {
  unsigned block = blockIdx.x;
  // Region 0.
  // One thread for each of 64 x 24/4; it stores 1 time 4 elements.
  if (block < 2u) {
    const unsigned thread = block * 256u + threadIdx.x;
    if (thread >= 384u) return;
    const int a1 = thread % 6u;
    const int a0 = thread / 6u;
    const auto w0 = kiln_load<4, 16>(in0 + 24 * a0 + 4 * a1);
    kiln_vector<float, 4, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float v1 = w0.at[lane];
      s0.at[lane] = v1;
    }
    kiln_store<4, 16>(out0 + 64 * a0 + 4 * a1, s0);
    return;
  }
  block -= 2u;
  // Region 1.
  // One thread for each of 64 x 40/4; it stores 1 time 4 elements.
  if (block < 3u) {
    const unsigned thread = block * 256u + threadIdx.x;
    if (thread >= 640u) return;
    const int a1 = thread % 10u;
    const int a0 = thread / 10u;
    const auto w0 = kiln_load<4, 16>(in1 + 40 * a0 + 4 * a1);
    kiln_vector<float, 4, 16> s0;
    #pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      const float v1 = w0.at[lane];
      const float v2 = exp(v1);
      s0.at[lane] = v2;
    }
    kiln_store<4, 16>(out0 + 64 * a0 + 4 * a1 + 24, s0);
    return;
  }
  block -= 3u;
}

