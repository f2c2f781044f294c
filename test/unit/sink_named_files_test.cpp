// matrix: D8
// Files that options name: whether they are others by now.
#include "sink/named_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace outbox::sink {
namespace {

class NamedFilesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(mkdtemp(directory_.data()), nullptr); }
  void TearDown() override {
    for (const std::string& name : {Name("a"), Name("b"), Name("new"), Name("link")}) {
      unlink(name.c_str());
    }
    rmdir(directory_.c_str());
  }
  std::string Name(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Name("new")) << text;
    ASSERT_EQ(rename(Name("new").c_str(), Name(name).c_str()), 0);
  }

  std::string directory_ = "/tmp/outbox-named-files.XXXXXX";
};

TEST_F(NamedFilesTest, ChangedByAnotherFileOrOtherBytes) {
  Write("a", "one");
  NamedFiles files({{"ca", Name("a")}, {"key", Name("b")}, {"else", "x"}}, {"ca", "key", "unset"});
  EXPECT_FALSE(files.empty());
  files.Note();
  EXPECT_FALSE(files.Changed());
  Write("a", "two");  // of the same size
  EXPECT_TRUE(files.Changed());
  files.Note();
  EXPECT_FALSE(files.Changed());
  std::ofstream(Name("a"), std::ios::app) << "more";
  EXPECT_TRUE(files.Changed());
  files.Note();
  Write("b", "there by now");
  EXPECT_TRUE(files.Changed());
  files.Note();
  unlink(Name("a").c_str());
  EXPECT_TRUE(files.Changed());
}

TEST_F(NamedFilesTest, ChangedByALinkThatLeadsElsewhere) {
  Write("a", "one");
  Write("b", "one");
  ASSERT_EQ(symlink(Name("a").c_str(), Name("link").c_str()), 0);
  NamedFiles files({{"ca", Name("link")}}, {"ca"});
  files.Note();
  ASSERT_EQ(symlink(Name("b").c_str(), Name("new").c_str()), 0);
  ASSERT_EQ(rename(Name("new").c_str(), Name("link").c_str()), 0);
  EXPECT_TRUE(files.Changed());
}

TEST_F(NamedFilesTest, SettledOnceNothingMoreComes) {
  NamedFiles files({{"certificate", Name("a")}, {"key", Name("b")}}, {"certificate", "key"});
  files.Note();
  EXPECT_FALSE(files.ChangedAndSettled());
  Write("a", "one");
  EXPECT_FALSE(files.ChangedAndSettled());
  Write("b", "one");
  EXPECT_FALSE(files.ChangedAndSettled());
  EXPECT_TRUE(files.ChangedAndSettled());
  files.Note();
  EXPECT_FALSE(files.ChangedAndSettled());
}

TEST_F(NamedFilesTest, WhatCannotBeUsedIsNamed) {
  const auto of = [this](const char* name, const char* option) {
    return NamedFiles({{option, Name(name)}}, {option}).Unusable();
  };
  const std::string described = "the file \"" + Name("a") + "\" of option \"ca\"";
  EXPECT_EQ(of("a", "ca"), "could not open " + described + ": No such file or directory");
  Write("a", "");
  EXPECT_EQ(of("a", "ca"), described + " is empty");
  Write("a", "one");
  EXPECT_EQ(of("a", "ca"), described + " has no PEM text in it");
  EXPECT_EQ(of("a", "ssl.keystore.location"), "");  // another format
  Write("a", "-----BEGIN CERTIFICATE-----\nMII");
  EXPECT_EQ(of("a", "ca"), described + " is cut short or damaged: a PEM text in it has no end");
  EXPECT_STRNE(NamedFiles::Hint(of("a", "ca")), "");
  Write("a", "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n");
  EXPECT_EQ(of("a", "ca"), "");
  EXPECT_STREQ(NamedFiles::Hint("another message"), "");
  EXPECT_EQ(of(".", "ca"), "the file \"" + Name(".") + "\" of option \"ca\" is a directory");
  EXPECT_EQ(of(".", "ssl.ca.location"), "");  // where one may be
}

}  // namespace
}  // namespace outbox::sink
