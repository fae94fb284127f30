// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
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
  bool takes_argument;
  std::string values;  ///< of the argument, separated by spaces
};

/// Of programs of their own, whose --help has them.
constexpr char kDemo[] =
    "--help --version --ranks=N --communicators=N --cycles=N --simulate --what=tags|symmetric "
    "--json=FILE";
constexpr char kExporter[] = "--help --listen=ADDRESS --once";
constexpr char kTop[] = "--help --interval=SECONDS";

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

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::string commands, words, arguments, fish;
  std::vector<std::string> of_run;  // the options that take an argument
  for (const CLI::App* command : app.get_subcommands({})) commands += command->get_name() + " ";
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    words += fmt::format("    {}) words=\"", name);
    fish += fmt::format("complete -c amem -n __fish_use_subcommand -f -a {}\n", name);
    for (const auto& [word, takes_argument, values] : words_of(*command, commands)) {
      words += word + " ";
      if (takes_argument) {
        arguments += fmt::format("    \"{} {}\") words=\"{}\" ;;\n", name, word, values);
        if (name == "run") of_run.push_back(word);
      }
      const bool is_option = word.starts_with("--");
      fish += fmt::format("complete -c amem -n '__amem_in {}' {}{} {}-a '{}'\n", name,
                          is_option ? "-l " : "-f", is_option ? word.substr(2) : "",
                          takes_argument ? "-r -f " : "", is_option ? values : word);
    }
    words += "\" ;;\n";
    if (name == "run" || name == "doctor")
      fish += fmt::format(
          "complete -c amem -n '__amem_in {} command' -f -a '(__fish_complete_command)'\n", name);
  }
  if (shell == "fish") return fmt::format(kFish, fmt::join(of_run, " ")) + fish;
  const std::string script = fmt::format(kBash, commands, words, fmt::join(of_run, "|"), arguments);
  if (shell != "zsh") return script;
  return "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         script;
}

}  // namespace amem
