// Which names the shared library shows.
#pragma once

#if defined(_WIN32)
#if defined(CALQUE_BUILDING)
#define CALQUE_API __declspec(dllexport)
#else
#define CALQUE_API __declspec(dllimport)
#endif
#else
#define CALQUE_API __attribute__((visibility("default")))
#endif
