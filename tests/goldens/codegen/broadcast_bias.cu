// Grid: (8192) / 1024 blocks of 256 threads.
// Computes
//   in0 : f32[64,128]
//   in1 : f32[128]
//   t0 = add(in0, in1) : f32[64,128]
//   t1 = gelu(t0) : f32[64,128]
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

// x/2 * (1 + tanh(u)) is x * sigmoid(2u).
template <typename T>
__device__ __forceinline__ T kiln_gelu_tanh(T x) {
  const T u = (T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x);
  const T e = exp(-fabs(u));
  return u < 0 ? (x * e) * e / ((T)1 + e * e) : x / ((T)1 + e * e);
}

extern "C" __global__ void __launch_bounds__(256, 1) kiln_elementwise(
    const float *__restrict__ in0,
    const float *__restrict__ in1,
    float *__restrict__ out0) {
  // One thread for each of 64 x 128/4; it stores 1 time 4 elements.
  const unsigned thread = blockIdx.x * 256u + threadIdx.x;
  if (thread >= 2048u) return;
  const int a1 = thread % 32u;
  const int a0 = thread / 32u;
  const auto w0 = kiln_load<4, 16>(in0 + 128 * a0 + 4 * a1);
  const auto w1 = kiln_load<4, 16>(in1 + 4 * a1);
  kiln_vector<float, 4, 16> s0;
  #pragma unroll
  for (int lane = 0; lane < 4; ++lane) {
    const float v2 = w0.at[lane];
    const float v3 = w1.at[lane];
    const float v4 = v2 + v3;
    const float v5 = kiln_gelu_tanh(v4);
    s0.at[lane] = v5;
  }
  kiln_store<4, 16>(out0 + 128 * a0 + 4 * a1, s0);
}

