#include "tandem/base/file_owner.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "tandem/base/text.h"

namespace tandem {
namespace {

// Whether the group has the user's name and no other members.
bool is_private(gid_t group, uid_t user) {
  std::array<char, 16384> user_text{}, group_text{};
  struct passwd its_user {};
  struct group its_group {};
  struct passwd* found_user = nullptr;
  struct group* found_group = nullptr;
  if (::getpwuid_r(user, &its_user, user_text.data(), user_text.size(), &found_user) != 0 || found_user == nullptr)
    return false;
  if (::getgrgid_r(group, &its_group, group_text.data(), group_text.size(), &found_group) != 0 ||
      found_group == nullptr)
    return false;
  if (std::strcmp(found_user->pw_name, found_group->gr_name) != 0) return false;
  for (char** member = found_group->gr_mem; *member != nullptr; ++member)
    if (std::strcmp(*member, found_user->pw_name) != 0) return false;
  return true;
}

std::string others_of(const std::filesystem::path& path, bool writers_count) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return concat(path.string(), " cannot be looked at: ", std::generic_category().message(errno));
  const uid_t me = ::geteuid();
  if (status.st_uid != me && status.st_uid != 0)
    return concat(path.string(), " belongs to another user (", status.st_uid, "; this is ", me, ")");
  if (!writers_count) return "";
  if ((status.st_mode & S_IWOTH) != 0) return concat(path.string(), " may be written by everybody (chmod o-w)");
  if ((status.st_mode & S_IWGRP) != 0 && !is_private(status.st_gid, me))
    return concat(path.string(), " may be written by its group (", status.st_gid, "; chmod g-w)");
  return "";
}

// Of the folders that the path names, from the nearest to the root.
std::string others_above(std::filesystem::path path) {
  while (path.has_relative_path()) {
    path = path.parent_path();
    struct stat status {};
    const bool is_sticky = ::stat(path.c_str(), &status) == 0 && (status.st_mode & S_ISVTX) != 0;
    if (std::string others = others_of(path, !is_sticky); !others.empty()) return others;
  }
  return "";
}

}  // namespace

std::string who_else_writes(const std::filesystem::path& path) { return others_of(path, true); }

// A link on the way could be pointed elsewhere by who may write its folder, and what it points to by who may write
// there.
std::string who_else_replaces(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path named = std::filesystem::absolute(file, error).lexically_normal();
  const std::filesystem::path real = std::filesystem::canonical(file, error);
  if (error) return concat(file.string(), " cannot be looked at: ", error.message());
  if (std::string others = who_else_writes(real); !others.empty()) return others;
  if (std::string others = others_above(real); !others.empty()) return others;
  return others_above(named);
}

}  // namespace tandem
