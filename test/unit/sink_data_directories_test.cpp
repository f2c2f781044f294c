#include "sink/data_directories.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace outbox::sink {
namespace {

namespace fs = std::filesystem;

class DataDirectoriesTest : public ::testing::Test {
 protected:
  DataDirectoriesTest() {
    char name[] = "/tmp/outbox-directories.XXXXXX";
    root_ = Resolved(mkdtemp(name));
    for (const char* made : {"/lib/15/main/base", "/lib/15/main/pg_tblspc", "/lib/certs", "/disk/wal", "/disk/space",
                             "/keys", "/keys/..data", "/library"}) {
      fs::create_directories(root_ + made);
    }
    std::ofstream(root_ + "/lib/15/main/PG_VERSION") << "15\n";
    fs::create_directory_symlink(root_ + "/disk/space", root_ + "/lib/15/main/pg_tblspc/16384");
    fs::create_directory_symlink(root_ + "/disk/wal", root_ + "/lib/15/main/pg_wal");
    fs::create_directory_symlink(root_ + "/lib/15/main", root_ + "/keys/elsewhere");
  }
  ~DataDirectoriesTest() override {
    std::error_code unknown;
    fs::remove_all(root_, unknown);
  }
  std::string root_;
};

TEST_F(DataDirectoriesTest, TheServersOwn) {
  const DataDirectories data(root_ + "/lib/15/main");
  for (const char* bad : {"", "/lib", "/lib/15", "/lib/15/main", "/lib/15/main/base", "/disk", "/disk/wal",
                          "/disk/space", "/keys/elsewhere", "/keys/elsewhere/base"}) {
    EXPECT_TRUE(data.Touched(root_ + bad)) << bad;
    EXPECT_TRUE(data.TouchedOrAnothers(root_ + bad)) << bad;
  }
  EXPECT_TRUE(data.Touched("/"));
  for (const char* good : {"/lib/certs", "/keys", "/keys/..data", "/library", "/nothing"}) {
    EXPECT_FALSE(data.Touched(root_ + good)) << good;
    EXPECT_FALSE(data.TouchedOrAnothers(root_ + good)) << good;
  }
}

TEST_F(DataDirectoriesTest, ThoseOfOthersAreKnownByTheirVersion) {
  for (const DataDirectories& data : {DataDirectories(""), DataDirectories("/nowhere/main")}) {
    for (const char* bad : {"", "/lib", "/lib/15", "/lib/15/main", "/lib/15/main/base", "/keys/elsewhere"}) {
      EXPECT_FALSE(data.Touched(root_ + bad)) << bad;
      EXPECT_TRUE(data.TouchedOrAnothers(root_ + bad)) << bad;
    }
    EXPECT_FALSE(data.TouchedOrAnothers(root_ + "/keys"));
  }
}

}  // namespace
}  // namespace outbox::sink
