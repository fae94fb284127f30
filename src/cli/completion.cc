// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/completion.h"

#include <fmt/format.h>

namespace amem {
namespace {

/// zsh reads it through bashcompinit. After `run` and `doctor`, the first word that is no option
/// and no argument of one begins a command, whose words are files.
constexpr char kBash[] = R"(_amem() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} words="" at
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "{}" -- "$current"))
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
    if ((at > COMP_CWORD)); then return; fi
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _amem amem
)";
/// Of amem_demo, a program of its own.
constexpr char kDemo[] = "--help --ranks --communicators --cycles --simulate --what --json ";

/// The long options; with `arguments` only those that need one, separated for a shell's `case`.
std::string options_of(const CLI::App& app, bool arguments = false) {
  std::string out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      if (!arguments)
        out += "--" + name + " ";
      else if (option->get_expected_min() > 0)
        out += (out.empty() ? "--" : "|--") + name;
  return out;
}

std::string words_of(const CLI::App& command, const std::string& commands) {
  const std::string& name = command.get_name();
  if (name == "demo") return kDemo;
  if (name == "help") return commands;
  return name == "completion" ? "bash zsh fish" : options_of(command);
}

std::string fish_script(const CLI::App& app, const std::string& commands) {
  std::string out;
  for (const CLI::App* command : app.get_subcommands({})) {
    const std::string& name = command->get_name();
    const std::string words = words_of(*command, commands);
    out += fmt::format("complete -c amem -n __fish_use_subcommand -f -a {}\n", name);
    out +=
        fmt::format("complete -c amem -n '__fish_seen_subcommand_from {}' -a '{}'\n", name, words);
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  std::string commands, cases;
  for (const CLI::App* command : app.get_subcommands({})) commands += command->get_name() + " ";
  if (shell == "fish") return fish_script(app, commands);
  for (const CLI::App* command : app.get_subcommands({}))
    cases +=
        fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), words_of(*command, commands));
  const std::string script = fmt::format(kBash, commands + options_of(app), cases,
                                         options_of(*app.get_subcommand("run"), true));
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + script : script;
}

}  // namespace amem
