// outbox.version() [P].
#include "base/version.h"

#include "pg/entry.h"
#include "pg/own_extension.h"

extern "C" {
#include "utils/builtins.h"
}

OUTBOX_FUNCTION(outbox_version) {
  return outbox::pg::Guard([] {
    const char* extension = outbox::pg::ReadOwnExtension().version;
    return CStringGetTextDatum(
        psprintf("library %s, extension %s", outbox::kVersion, extension == nullptr ? "?" : extension));
  });
}
