// A libmujoco of another version, as far as anybody who looks at its version can tell.
extern "C" __attribute__((visibility("default"))) int mj_version();
extern "C" int mj_version() { return 337; }
