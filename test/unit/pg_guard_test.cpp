// matrix: A11
// pg/guard.h without a server: this file stands in for the few functions of Postgres that Guard() calls.
#include <gtest/gtest.h>

#include <stdexcept>

#include "pg/guard.h"

namespace {

ErrorData current;              // the error being raised
int copies_without_memory = 0;  // so many CopyErrorData() raise instead
int flushed = 0;

[[noreturn]] void RaiseError(int sqlstate, const char* message) {
  current = {};
  current.sqlerrcode = sqlstate;
  current.message = const_cast<char*>(message);
  siglongjmp(*PG_exception_stack, 1);
}

}  // namespace

extern "C" {
sigjmp_buf* PG_exception_stack = nullptr;
ErrorContextCallback* error_context_stack = nullptr;
MemoryContext CurrentMemoryContext = nullptr;
MemoryContext TopMemoryContext = nullptr;

ErrorData* CopyErrorData(void) {
  if (copies_without_memory > 0) {
    --copies_without_memory;
    RaiseError(ERRCODE_OUT_OF_MEMORY, "no memory for a copy");
  }
  return new ErrorData(current);
}
void FreeErrorData(ErrorData* error) {
  delete error;
}
void FlushErrorState(void) {
  ++flushed;
}
void ReThrowError(ErrorData* error) {
  current = *error;
  siglongjmp(*PG_exception_stack, 1);
}
void pg_re_throw(void) {
  siglongjmp(*PG_exception_stack, 1);
}
}

namespace outbox::pg {
namespace {

struct Owner {
  explicit Owner(int* alive) : alive_(alive) { ++*alive_; }
  ~Owner() { --*alive_; }
  int* alive_;
};

class Guarded : public ::testing::Test {
 protected:
  // Runs `body` as the server would: what jumps out of C++ arrives at the server's own handler.
  template <typename Body>
  bool JumpsOut(Body body) {
    sigjmp_buf server;
    PG_exception_stack = &server;
    if (sigsetjmp(server, 0) != 0) {
      return true;
    }
    body();
    EXPECT_EQ(PG_exception_stack, &server);
    return false;
  }
  int alive_ = 0;
  int sqlstate_ = 0;
};

TEST_F(Guarded, AnErrorBecomesAnException) {
  flushed = 0;
  EXPECT_FALSE(JumpsOut([this] {
    try {
      Owner owner(&alive_);
      Guard([] { RaiseError(ERRCODE_UNDEFINED_TABLE, "no such table"); });
      ADD_FAILURE();
    } catch (const PgError& error) {
      sqlstate_ = error.sqlstate();
      EXPECT_STREQ(error.what(), "no such table");
      DropError(error);
    }
  }));
  EXPECT_EQ(sqlstate_, ERRCODE_UNDEFINED_TABLE);
  EXPECT_EQ(alive_, 0);
  EXPECT_EQ(flushed, 1);
}

TEST_F(Guarded, AnErrorIsCopiedOutOfMemoryThatGoes) {
  EXPECT_FALSE(JumpsOut([this] {
    auto* data = new ErrorData{};
    data->sqlerrcode = ERRCODE_UNDEFINED_TABLE;
    char text[] = "no such table";
    data->message = text;
    const PgError copy(CopyError(PgError(data), nullptr));
    delete data;  // as the end of its transaction does
    sqlstate_ = copy.sqlstate();
    EXPECT_STREQ(copy.what(), "no such table");
    DropError(copy);
  }));
  EXPECT_EQ(sqlstate_, ERRCODE_UNDEFINED_TABLE);

  copies_without_memory = 1;
  EXPECT_FALSE(JumpsOut([this] {
    auto* data = new ErrorData{};
    data->sqlerrcode = ERRCODE_UNDEFINED_TABLE;
    const PgError copy(CopyError(PgError(data), nullptr));
    delete data;
    sqlstate_ = copy.sqlstate();
    DropError(copy);
  }));
  EXPECT_EQ(sqlstate_, ERRCODE_OUT_OF_MEMORY);
}

TEST_F(Guarded, WithoutMemoryForACopyTheExceptionSaysSo) {
  flushed = 0;
  copies_without_memory = 1;
  EXPECT_FALSE(JumpsOut([this] {
    try {
      Owner owner(&alive_);
      Guard([] { RaiseError(ERRCODE_UNDEFINED_TABLE, "no such table"); });
      ADD_FAILURE();
    } catch (const PgError& error) {
      sqlstate_ = error.sqlstate();
      DropError(error);  // and it is not ours to free
    }
  }));
  EXPECT_EQ(sqlstate_, ERRCODE_OUT_OF_MEMORY);
  EXPECT_EQ(alive_, 0) << "a destructor was jumped over";
  EXPECT_EQ(flushed, 1);
}

TEST_F(Guarded, AnExceptionOfTheBodyPassesThrough) {
  EXPECT_FALSE(JumpsOut([] {
    EXPECT_THROW(Guard([]() -> int { throw std::runtime_error("ours"); }), std::runtime_error);
    EXPECT_EQ(Guard([] { return 7; }), 7);
  }));
}

}  // namespace
}  // namespace outbox::pg
