#include "worker/launcher.h"

namespace outbox::worker {

void RegisterLauncher() {}
void InstallUtilityHook() {}

}  // namespace outbox::worker
