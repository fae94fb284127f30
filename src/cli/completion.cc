// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The amem authors
#include "cli/completion.h"

#include <fmt/format.h>

namespace amem {
namespace {

/// zsh reads it through bashcompinit.
constexpr char kBash[] = R"(_amem() {{
  local options current=${{COMP_WORDS[COMP_CWORD]}}
  case ${{COMP_WORDS[1]}} in
{}
    *) options="{}" ;;
  esac
  COMPREPLY=($(compgen -W "$options" -- "$current"))
}}
complete -o bashdefault -o default -F _amem amem
)";

std::string options_of(const CLI::App& app) {
  std::string out;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) out += "--" + name + " ";
  return out;
}

std::string fish_script(const CLI::App& app) {
  std::string out;
  for (const CLI::App* command : app.get_subcommands({})) {
    out += fmt::format("complete -c amem -n __fish_use_subcommand -f -a {}\n", command->get_name());
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames())
        out += fmt::format("complete -c amem -n '__fish_seen_subcommand_from {}' -l {}\n",
                           command->get_name(), name);
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  if (shell == "fish") return fish_script(app);
  std::string cases, names = options_of(app);
  for (const CLI::App* command : app.get_subcommands({})) {
    names += command->get_name() + " ";
    cases += fmt::format("    {}) options=\"{}\" ;;\n", command->get_name(), options_of(*command));
  }
  cases.resize(cases.size() - 1);
  const std::string script = fmt::format(kBash, cases, names);
  return shell == "zsh" ? "autoload -U +X bashcompinit && bashcompinit\n" + script : script;
}

}  // namespace amem
