// Grid: (256) / 256 blocks of 256 threads.
// Computes
//   in0 : f32[64,4]
//   t0 = softmax(in0) : f32[64,4]
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

template <typename T>
__device__ __forceinline__ T kiln_maximum(T a, T b) {
  return a > b || a != a ? a : b;
}

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const float *__restrict__ in0,
    float *__restrict__ out0) {
  // One thread for each of 64; it stores 1 time 4 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 64u) return;
  const int a0 = thread;
  const float v0 = in0[4 * a0];
  const float v1 = in0[4 * a0 + 1];
  const float v2 = in0[4 * a0 + 2];
  const float v3 = in0[4 * a0 + 3];
  const float v4 = kiln_maximum(v0, v1);
  const float v5 = kiln_maximum(v2, v3);
  const float v6 = kiln_maximum(v4, v5);
  const float v7 = v0 - v6;
  const float v8 = v1 - v6;
  const float v9 = v2 - v6;
  const float v10 = v3 - v6;
  const float v11 = exp(v7);
  const float v12 = exp(v8);
  const float v13 = exp(v9);
  const float v14 = exp(v10);
  const float v15 = v11 + v12;
  const float v16 = v13 + v14;
  const float v17 = v15 + v16;
  const auto w18 = kiln_load<4, 16>(in0 + 4 * a0);
  kiln_vector<float, 4, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const float v19 = w18.at[lane];
    const float v20 = v19 - v6;
    const float v21 = exp(v20);
    const float v22 = v21 / v17;
    s0.at[lane] = v22;
  }
  kiln_store<4, 16>(out0 + 4 * a0, s0);
}

