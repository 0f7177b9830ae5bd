package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Command is what settings are read for.
type Command int

// The commands that have settings.
const (
	Serve   Command = iota // All settings.
	Migrate                // Where the database is, and nothing else.
)

func (cmd Command) has(s *setting) bool {
	return cmd == Serve || s.name == "database" || s.name == "data"
}

// Flags returns the flags of a command, for its help.
func Flags(cmd Command) *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {}
	fs.SetOutput(nowhere{})
	fs.Var(&text{form: "FILE"}, "config", "read settings from a YAML file, by their names with _ for -")
	for i := range settings {
		s := &settings[i]
		if !cmd.has(s) {
			continue
		}
		help := s.help
		if s.preset != "" {
			help += " (default " + s.preset + ")"
		}
		fs.Var(&text{form: s.form}, s.name, help)
		if s.form == "" {
			fs.Lookup(s.name).NoOptDefVal = "true"
		}
	}
	return fs
}

type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// text is a flag that takes anything: values are judged later, all together.
type text struct{ form, value string }

func (t *text) String() string     { return "" }
func (t *text) Set(v string) error { t.value = v; return nil }

// Type names the value in the help; "bool" makes pflag show none.
func (t *text) Type() string {
	if t.form == "" {
		return "bool"
	}
	return t.form
}

// Load reads the settings of a command: flags in args, then SECKILL_ variables in environ
// ("NAME=value"), then the file that --config or SECKILL_CONFIG names, then the
// defaults. What is wrong is said all at once, see [Mistakes]; pflag.ErrHelp if help
// was asked for.
func Load(args, environ []string, cmd Command) (Config, error) {
	l := &loader{cmd: cmd, given: map[string]given{}}
	// The order is the precedence: who comes first has the setting.
	if err := l.flags(args); err != nil {
		return Config{}, err
	}
	l.environ(environ)
	if file, ok := l.given["config"]; ok {
		l.file(file)
	}
	c, failed := l.parse()
	name := func(s string) string {
		if g, ok := l.given[s]; ok {
			return g.name
		}
		return flagName(s)
	}
	if found := c.check(name, failed); cmd == Serve {
		l.mistakes = append(l.mistakes, found...)
	}
	if c.Queue == (Queue{}) {
		c.Queue = c.Stock.queue()
	}
	c.Database = c.SQL()
	return c, join(l.mistakes)
}

// given is a value and what its giver calls the setting.
type given struct {
	name, value string
	flag        bool
}

type loader struct {
	cmd      Command
	given    map[string]given // By the name of the setting.
	mistakes []*Mistake
}

func (l *loader) mistake(setting, what, accepted string) {
	l.mistakes = append(l.mistakes, &Mistake{setting, what, accepted})
}

// flags parses again and again without what it does not know, to find all of it.
func (l *loader) flags(args []string) error {
	args = slices.Clone(args)
	for {
		fs := Flags(l.cmd)
		err := fs.Parse(args)
		if err == nil {
			fs.Visit(func(f *pflag.Flag) {
				l.given[f.Name] = given{"--" + f.Name, f.Value.(*text).value, true}
			})
			if fs.NArg() > 0 {
				// Not shown: it may be part of a secret with a space in it.
				l.mistake(fmt.Sprintf("%d of the arguments", fs.NArg()), "belong to no flag", "flags only; quote a value that has spaces")
			}
			return nil
		}
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		var unknown *pflag.NotExistError
		var valueless *pflag.ValueRequiredError
		switch {
		case errors.As(err, &unknown):
			dashes := "--"
			if unknown.GetSpecifiedShortnames() != "" {
				dashes = "-"
			}
			name := unknown.GetSpecifiedName()
			l.mistake(dashes+name, "is not a setting", l.known(dashes+name, flagName))
			args = without(args, dashes+name)
		case errors.As(err, &valueless):
			l.mistake("--"+valueless.GetFlag().Name, "has no value", "--"+valueless.GetFlag().Name+" "+valueless.GetFlag().Value.Type())
			args = args[:len(args)-1]
		default:
			l.mistake("one of the arguments", "is not a flag", "--name value, or --name=value")
			return nil
		}
	}
}

// without takes away the first use of a flag that is not known, with what must be its value.
func without(args []string, flag string) []string {
	i := slices.IndexFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == flag || !strings.HasPrefix(flag, "--") && strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
	})
	if i < 0 {
		return nil // It cannot be; nothing is better than parsing for ever.
	}
	end := i + 1
	if !strings.Contains(args[i], "=") && end < len(args) && !strings.HasPrefix(args[end], "-") {
		end++
	}
	return slices.Delete(args, i, end)
}

// known says which settings there are, the one that was probably meant first.
func (l *loader) known(name string, form func(string) string) string {
	var all []string
	for i := range settings {
		if l.cmd.has(&settings[i]) {
			all = append(all, form(settings[i].name))
		}
	}
	if near := nearest(name, all); near != "" {
		return near + ", perhaps; `seckill help serve` lists all"
	}
	return "the settings that `seckill help serve` lists"
}

// foreign variables begin with SECKILL_ too: those of clients and tests, and what
// Kubernetes sets in each container when a Service is called seckill or seckill-….
var foreign = regexp.MustCompile(`^SECKILL_(SERVER|TEST_\w+|(\w+_)?SERVICE_(HOST|PORT(_\w+)?)|(\w+_)?PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

func (l *loader) environ(environ []string) {
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "SECKILL_") {
			continue
		}
		s := lookup(func(s *setting) bool { return s.variable() == name })
		switch {
		case s != nil:
			l.give(s.name, given{name: name, value: value})
		case name == "SECKILL_CONFIG":
			l.give("config", given{name: name, value: value})
		case !foreign.MatchString(name):
			l.mistake(name, "is not a setting", l.known(name, func(n string) string { return (&setting{name: n}).variable() }))
		}
	}
}

// give notes a value unless a better source has given one. An empty variable is
// what many tools make of one that is not set.
func (l *loader) give(setting string, g given) {
	if _, taken := l.given[setting]; !taken && g.value != "" {
		l.given[setting] = g
	}
}

func lookup(is func(*setting) bool) *setting {
	for i := range settings {
		if is(&settings[i]) {
			return &settings[i]
		}
	}
	return nil
}

// parse judges the values that count, and tells which settings are wrong.
func (l *loader) parse() (Config, map[string]bool) {
	c, failed := Default(), map[string]bool{}
	for i := range settings {
		s := &settings[i]
		g, ok := l.given[s.name]
		if !ok || !l.cmd.has(s) {
			continue
		}
		var w *wrong
		if err := s.parse(&c, g.value); errors.As(err, &w) {
			failed[s.name] = true
			what := w.what
			if !s.secret && !strings.Contains(what, `"`) {
				what = fmt.Sprintf("%q %s", g.value, what)
			}
			l.mistake(g.name, what, w.accepted)
			continue
		}
		if g.flag && s.secret && holdsSecret(&c, s.name, g.value) {
			c.Warnings = append(c.Warnings, g.name+" shows its secret in the list of processes; "+s.variable()+", a file of settings or @FILE does not")
		}
	}
	// A lower high mark alone brings the low one down with it.
	if _, given := l.given["backlog-low"]; !given && c.BacklogLow > c.BacklogHigh {
		c.BacklogLow = max(c.BacklogHigh/2, 0)
	}
	return c, failed
}

func holdsSecret(c *Config, name, value string) bool {
	switch name {
	case "auth":
		return c.Auth.Kind == AuthHS256 && !strings.HasPrefix(value, AuthHS256+":@")
	case "admin-token":
		return !strings.HasPrefix(value, "@")
	case "database":
		return !c.Database.Password.Empty()
	}
	return false
}
