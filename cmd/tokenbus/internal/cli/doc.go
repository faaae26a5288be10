// Package cli is the configuration layer of the tokenbus binary.
//
// A command is a struct; its fields are its settings. [Parse] reads each
// setting from four places, the first that has it wins:
//
//  1. the flag, --log-level=debug
//  2. the environment, TOKENBUS_LOG_LEVEL=debug (an empty variable is unset)
//  3. the YAML file named by --config or TOKENBUS_CONFIG
//  4. the default in the field's tag
//
// Nothing has to be declared twice: the variable and the YAML key follow from
// the flag name. The file has one section a command, whose keys are the flag
// names. A key at the top level applies to every command that has that flag;
// the section overrides it. Nested commands are nested sections.
//
//	nats: nats://bus.example:4222
//	log-level: info
//	gateway:
//	  listen: ":8080"
//	  body-limit: 64MiB
//	keys:
//	  add:
//	    expires: 720h
//
// A list sets a repeatable flag element by element. A single scalar is read as
// the flag reads it, so it is split at the flag's separator.
//
// The layer is strict. An unknown or repeated key, a value of the wrong type
// anywhere in the file (also in the sections of other commands), and an unknown
// TOKENBUS_ variable are errors. All of them are reported in one [UsageError],
// each with its place and, where something similar exists, a did-you-mean.
//
// Every command also gets --config, --print-config, --version and --help; a
// grammar must not declare flags of these names.
//
// The package also holds what a command needs around its settings: [Secret] and
// [ResolveSecret], [Bytes], [NewLogger] and [Version].
package cli
