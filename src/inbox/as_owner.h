// SQL of the inbox [P]: run with the rights of the owner of its tables, whoever calls. Plain.
#pragma once

#include "inbox/ring.h"
#include "pg/owner.h"
#include "pg/statement.h"

namespace outbox::inbox {

// `work` with SPI connected, as the owner and with these settings; returns what it returns, which is not of SPI's
// memory.
template <typename Work>
auto AsOwner(std::span<const pg::PinnedSetting> settings, Work&& work) -> decltype(work()) {
  return pg::AsOwner(pg::OwnerOf(InboxTable("inbox_kept")), settings, [&work] {
    if (SPI_connect() != SPI_OK_CONNECT) {
      ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not connect to SPI")));
    }
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      SPI_finish();
    } else {
      const auto result = work();
      SPI_finish();
      return result;
    }
  });
}
// To compile one of its statements takes longer than to run it.
inline constexpr pg::PinnedSetting kNotCompiled[] = {{"jit", "off"}};
template <typename Work>
auto AsOwner(Work&& work) -> decltype(work()) {
  return AsOwner(kNotCompiled, work);
}

// A statement of the inbox names nothing without its schema, operators and functions of the server too: it is the same
// under any search_path. Returns the number of rows. In a transaction that keeps one snapshot it runs under that, as a
// statement of the caller's would; `newest`: under one that sees all that is committed. nulls: as for SPI.
uint64 Run(pg::Statement* statement, Datum* values, bool newest = false, const char* nulls = nullptr);

}  // namespace outbox::inbox
