// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace amem {
namespace {

/// zsh reads it through bashcompinit. After `run` and `doctor`, the first word that is no option
/// and no argument of one begins a command, whose words are files.
constexpr char kBash[] = R"(_amem() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words="" at
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{}--help --version" -- "$current"))
    return
  fi
  case ${{COMP_WORDS[1]}} in
{}  esac
  if [[ ${{COMP_WORDS[1]}} == run || ${{COMP_WORDS[1]}} == doctor ]]; then
    for ((at = 2; at < COMP_CWORD; ++at)); do
      case ${{COMP_WORDS[at]}} in
        --) ((++at)); break ;;
        {}) ((++at)) ;;
        -*) ;;
        *) break ;;
      esac
    done
    if ((at < COMP_CWORD)); then return; fi
    if ((at == COMP_CWORD)) && [[ $current != -* ]]; then
      COMPREPLY=($(compgen -c -- "$current"))
      return
    fi
  fi
  case "${{COMP_WORDS[1]}} $before" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _amem amem
)";
/// __amem_in COMMAND [command]: its options come next, and of `run` and `doctor` no command has
/// begun, or only after `--` with a second argument.
constexpr char kFish[] = R"(function __amem_in
  set -l words (commandline -opc)
  test (count $words) -ge 2; and test $words[2] = $argv[1]; or return 1
  contains -- $argv[1] run doctor; or return 0
  set -l takes 0
  set -l is_marked 0
  for word in $words[3..]
    if test $is_marked = 1
      return 1
    else if test $takes = 1
      set takes 0
    else if test $word = --
      set is_marked 1
    else if contains -- $word {}
      set takes 1
    else if not string match -q -- '-*' $word
      return 1
    end
  end
  test $is_marked = 0; or test "$argv[2]" = command
end
complete -c amem -n __fish_use_subcommand -f -l help
complete -c amem -n __fish_use_subcommand -f -s V -l version
)";

struct Word {
  std::string name;  ///< with "--", or a word that is no option
  bool takes_argument = false;
  std::string values{};  ///< of the argument, separated by spaces
};

/// Of programs of their own, whose --help has them.
const std::vector<Word> kDemo = {{"--help"},
                                 {"--version"},
                                 {"--ranks", true},
                                 {"--communicators", true},
                                 {"--cycles", true},
                                 {"--simulate"},
                                 {"--what", true, "tags symmetric"},
                                 {"--json", true}};
const std::vector<Word> kExporter = {{"--help"}, {"--listen", true}, {"--once"}};

std::vector<Word> options_of(const CLI::App& command, const std::string& commands) {
  const std::string& name = command.get_name();
  if (name == "demo") return kDemo;
  if (name == "exporter") return kExporter;
  if (name == "help") return {{commands}};
  if (name == "completion") return {{"bash zsh fish "}};
  std::vector<Word> out;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& each : option->get_lnames()) {
      std::string values = option->get_type_name();  // force|respect, but not NAME|N
      const bool are_words = values.find('|') != values.npos && values[0] >= 'a';
      std::replace(values.begin(), values.end(), '|', ' ');
      out.push_back({"--" + each, option->get_expected_min() > 0, are_words ? values : ""});
    }
  return out;
}

/// The options of `run` that take an argument.
std::string with_argument(const CLI::App& app, const char* separator) {
  std::vector<std::string> names;
  for (const Word& each : options_of(*app.get_subcommand("run"), ""))
    if (each.takes_argument) names.push_back(each.name);
  return fmt::format("{}", fmt::join(names, separator));
}

std::string fish_script(const CLI::App& app, const std::string& commands) {
  std::string out = fmt::format(kFish, with_argument(app, " "));
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    out += fmt::format("complete -c amem -n __fish_use_subcommand -f -a {}\n", name);
    for (const Word& each : options_of(*command, commands)) {
      const bool is_option = each.name.starts_with("--");
      out += fmt::format("complete -c amem -n '__amem_in {}' {}{} {}-a '{}'\n", name,
                         is_option ? "-l " : "-f", is_option ? each.name.substr(2) : "",
                         each.takes_argument ? "-r -f " : "", is_option ? each.values : each.name);
    }
    if (name == "run" || name == "doctor")
      out += fmt::format(
          "complete -c amem -n '__amem_in {} command' -f -a '(__fish_complete_command)'\n", name);
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::string commands, words, arguments;
  for (const CLI::App* command : app.get_subcommands({})) commands += command->get_name() + " ";
  if (shell == "fish") return fish_script(app, commands);
  for (const CLI::App* command : app.get_subcommands({})) {
    words += fmt::format("    {}) words=\"", command->get_name());
    for (const Word& each : options_of(*command, commands)) {
      words += each.name + " ";
      if (each.takes_argument)
        arguments += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", command->get_name(), each.name,
                                 each.values);
    }
    words += "\" ;;\n";
  }
  const std::string script =
      fmt::format(kBash, commands, words, with_argument(app, "|"), arguments);
  if (shell != "zsh") return script;
  return "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         script;
}

}  // namespace amem
