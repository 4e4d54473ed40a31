// A program that knows nothing of calque loads, with local symbols, a shared object that uses it.
#include <dlfcn.h>

#include <cstdio>

int main(int, char** words) {
  void* plugin = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)(const char*)>(dlsym(plugin, "run_plugin"))(words[1]);
}
