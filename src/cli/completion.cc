// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/completion.h"

#include <algorithm>
#include <sstream>

namespace amem {
namespace {

/// In place of words: any command of the shell.
constexpr char kCommand[] = "@command";

/// zsh reads it through bashcompinit. Without words, the shell completes files.
constexpr char kBash[] = R"(_amem() {
  local current=${COMP_WORDS[COMP_CWORD]}
  local command=${COMP_WORDS[0]}  # as it is typed, so that it may contain variables
  command -v "$command" >/dev/null || command=amem
  local words=$("$command" completion for "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null)
  if [[ $words == @command ]]; then
    COMPREPLY=($(compgen -c -- "$current"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}
complete -o bashdefault -o default -F _amem amem
)";
constexpr char kFish[] = R"(function __amem_has_words
  set -l words (commandline -opc) (commandline -ct)
  type -q $words[1]; or return 1
  set -g __amem_words (string split -n -- ' ' ($words[1] completion for $words[2..] 2>/dev/null))
  test -n "$__amem_words"
end
function __amem_complete
  test "$__amem_words" = @command; and __fish_complete_command; or printf '%s\n' $__amem_words
end
complete -c amem -n __amem_has_words -f -a '(__amem_complete)'
)";

struct Word {
  std::string name;  ///< with "--", or a word that is no option
  bool takes_argument;
  std::string values;  ///< of the argument, separated by spaces
};

/// Of programs of their own, whose --help has them.
constexpr char kDemo[] =
    "--help --version --ranks=N --communicators=N --cycles=N --simulate --what=tags|symmetric "
    "--json=FILE";
constexpr char kExporter[] = "--help --listen=ADDRESS --once --user=NAME";
constexpr char kTop[] = "--help --interval=SECONDS --user=NAME";

std::vector<Word> words_of(const CLI::App& command, const std::string& commands) {
  const std::string& name = command.get_name();
  std::string text = name == "demo"         ? kDemo
                     : name == "exporter"   ? kExporter
                     : name == "top"        ? kTop
                     : name == "help"       ? commands
                     : name == "completion" ? "bash zsh fish"
                                            : "";
  if (text.empty())
    for (const CLI::Option* option : command.get_options())
      for (const std::string& each : option->get_lnames())
        text += "--" + each +
                (option->get_expected_min() > 0 ? "=" + option->get_type_name() : "") + " ";
  std::vector<Word> out;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t equals = std::min(word.find('='), word.size());
    std::string values = word.substr(std::min(equals + 1, word.size()));
    // force|respect, but not NAME|N.
    if (values.find('|') == values.npos || values[0] < 'a') values.clear();
    std::replace(values.begin(), values.end(), '|', ' ');
    out.push_back({word.substr(0, equals), equals < word.size(), values});
  }
  return out;
}

}  // namespace

std::string completion_script(const std::string& shell) {
  if (shell == "fish") return kFish;
  if (shell == "bash") return kBash;
  return std::string(
             "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
             "autoload -U +X bashcompinit && bashcompinit\n") +
         kBash;
}

std::string completions(const CLI::App& app, const std::vector<std::string>& words) {
  std::string commands, all;
  for (const CLI::App* command : app.get_subcommands({})) commands += command->get_name() + " ";
  if (words.size() < 2) return commands + "--help --version";
  const std::string& name = words.front();
  const auto found =
      app.get_subcommands([&](const CLI::App* each) { return each->get_name() == name; });
  if (found.empty()) return "";
  if (name == "run" || name == "doctor") {
    size_t at = begin_of_command(*found.front(), words);
    if (at + 1 < words.size() && words[at] == "--") ++at;
    if (at + 1 < words.size()) return "";
    if (at + 1 == words.size() && words[at] != "--") return kCommand;
  }
  for (const auto& [word, takes_argument, values] : words_of(*found.front(), commands)) {
    if (takes_argument && word == words[words.size() - 2]) return values;
    all += word + " ";
  }
  return all;
}

size_t begin_of_command(const CLI::App& run, const std::vector<std::string>& arguments) {
  size_t at = 1;
  while (at < arguments.size() && arguments[at].starts_with('-') && arguments[at] != "--") {
    const CLI::Option* const option = run.get_option_no_throw(arguments[at]);
    at += option != nullptr && option->get_expected_min() > 0 ? 2 : 1;
  }
  return std::min(at, arguments.size());
}

}  // namespace amem
