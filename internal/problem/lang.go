package problem

import "strings"

// Lang is a language that this program speaks.
type Lang uint8

// The languages. English is what those hear who do not say.
const (
	EN Lang = iota
	ZH
	langs
)

// Tag names the language, for Content-Language.
func (l Lang) Tag() string {
	if l == ZH {
		return "zh"
	}
	return "en"
}

// rangesMax bounds how many ranges of an Accept-Language are read.
const rangesMax = 32

// Negotiate picks the language for an Accept-Language header. It never fails: what
// it cannot read it passes over, and without a preference it is English.
func Negotiate(acceptLanguage string) Lang {
	if acceptLanguage == "" {
		return EN
	}
	if l, ok := firstChoice(acceptLanguage); ok {
		return l
	}
	// unset is below every quality, 0 included, which means "not this one".
	const unset = -1
	best, order, star := [langs]int{unset, unset}, [langs]int{}, unset
	for i := 0; i < rangesMax && acceptLanguage != ""; i++ {
		var one string
		one, acceptLanguage, _ = strings.Cut(acceptLanguage, ",")
		tag, params, _ := strings.Cut(one, ";")
		q, ok := quality(params)
		if !ok {
			continue
		}
		tag = strings.TrimSpace(tag)
		if tag == "*" {
			star = max(star, q)
			continue
		}
		primary, _, _ := strings.Cut(tag, "-")
		var l Lang
		switch {
		case strings.EqualFold(primary, "zh"):
			l = ZH
		case strings.EqualFold(primary, "en"):
			l = EN
		default:
			continue
		}
		if q > best[l] {
			best[l], order[l] = q, i
		}
	}
	for l := range best {
		if best[l] == unset {
			best[l], order[l] = star, rangesMax
		}
	}
	if best[ZH] > 0 && (best[ZH] > best[EN] || best[ZH] == best[EN] && order[ZH] < order[EN]) {
		return ZH
	}
	return EN
}

// firstChoice is the quick way for what browsers send: nothing beats a first range without a
// quality.
func firstChoice(acceptLanguage string) (Lang, bool) {
	if len(acceptLanguage) < 2 {
		return EN, false
	}
	var l Lang
	switch acceptLanguage[:2] {
	case "zh":
		l = ZH
	case "en":
	default:
		return EN, false
	}
	for i := 2; i < len(acceptLanguage); i++ {
		switch c := acceptLanguage[i]; {
		case c == ',':
			return l, true
		case i == 2 && c != '-', c == ';', c == ' ':
			return EN, false
		}
	}
	return l, true
}

// quality reads "q=0.8" in thousandths; nothing means 1.
func quality(params string) (thousandths int, ok bool) {
	params = strings.TrimSpace(params)
	if params == "" {
		return 1000, true
	}
	name, value, found := strings.Cut(params, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	whole, part, _ := strings.Cut(strings.TrimSpace(value), ".")
	if whole != "0" && whole != "1" || len(part) > 3 {
		return 0, false
	}
	q := int(whole[0]-'0') * 1000
	for i, unit := 0, 100; i < len(part); i, unit = i+1, unit/10 {
		if part[i] < '0' || part[i] > '9' {
			return 0, false
		}
		q += int(part[i]-'0') * unit
	}
	return q, q <= 1000
}
