package problem

import (
	"strings"

	"seckill"
)

// texts is what people read, by reason: the title for programmers, and for buyers what
// is the matter and what to do next, by language.
var texts = [seckill.Reasons]struct {
	title string
	msg   [langs]string
}{
	seckill.NoReason: {"OK", [langs]string{"Done.", "成功"}},
	seckill.InvalidRequest: {"Invalid request", [langs]string{
		"The request is not valid. Please correct it and send it again.",
		"请求有误，请修改后重试",
	}},
	seckill.Unauthenticated: {"Not signed in", [langs]string{
		"Please sign in and try again.",
		"请先登录，再来抢购",
	}},
	seckill.Blocked: {"Blocked", [langs]string{
		"You cannot take part in this sale. If you think this is a mistake, please contact the shop.",
		"您已被限制参与本次活动，如有疑问请联系客服",
	}},
	seckill.RateLimited: {"Too many requests", [langs]string{
		"You are clicking too fast. Please wait a moment and try again.",
		"操作太频繁，请稍后再试",
	}},
	seckill.NotFound: {"Not found", [langs]string{
		"There is nothing here. Please check the address.",
		"您访问的内容不存在，请检查后再试",
	}},
	seckill.Paused: {"Paused", [langs]string{
		"The sale is paused. Please try again in a moment.",
		"活动暂停中，请稍后再试",
	}},
	seckill.Busy: {"Busy", [langs]string{
		"Too many people are buying right now. Please try again in a moment.",
		"活动太火爆，请稍后再试",
	}},
	seckill.NotStarted: {"Not started", [langs]string{
		"The sale has not started yet. Please come back when it starts.",
		"活动尚未开始，请在开始后再来抢购",
	}},
	seckill.Ended: {"Ended", [langs]string{
		"The sale is over. See you next time.",
		"活动已结束，下次早点来哦",
	}},
	seckill.NotEligible: {"Not eligible", [langs]string{
		"This sale is for invited buyers only. Please have a look at our other sales.",
		"您不在本次活动的受邀名单中，请关注其他活动",
	}},
	seckill.ChallengeRequired: {"Challenge required", [langs]string{
		"Please complete the security check first, then try again.",
		"请先完成安全验证，再继续抢购",
	}},
	seckill.Replayed: {"Replayed", [langs]string{
		"This pass has been used already. Please reload the page and try again.",
		"该凭证已被使用，请刷新页面后重试",
	}},
	seckill.IdempotencyMismatch: {"Idempotency key used for another request", [langs]string{
		"This Idempotency-Key was used for a different request. Please send a new key.",
		"该 Idempotency-Key 已用于另一个请求，请更换后重试",
	}},
	seckill.AlreadyPurchased: {"Already purchased", [langs]string{
		"You have bought all you may buy here. Please look at your ticket for the result.",
		"您已经抢购过了，请查看抢购结果",
	}},
	seckill.SoldOut: {"Sold out", [langs]string{
		"Sold out. Units of unpaid orders may come back, so it can be worth another look later.",
		"已售罄，如有未付款订单退回库存，可稍后再来看看",
	}},
	seckill.TooLarge: {"Too large", [langs]string{
		"The request is too large. Please send less.",
		"请求内容过大，请精简后重试",
	}},
	seckill.Conflict: {"Conflict", [langs]string{
		"That is not possible in the present state. Please reload and have another look.",
		"当前状态下无法进行该操作，请刷新后查看最新状态",
	}},
	seckill.Internal: {"Internal error", [langs]string{
		"Something went wrong on our side. Please try again later.",
		"系统开小差了，请稍后再试",
	}},
}

// Msg is what a buyer is told for a reason.
func Msg(r seckill.Reason, l Lang) string { return texts[r].msg[l] }

// rules is what is said of a field, by rule; {f} is the field, {a} what is accepted.
var rules = map[seckill.Rule][langs]string{
	seckill.RuleRequired: {"{f} is missing", "缺少 {f}"},
	seckill.RuleType:     {"{f} must be of type {a}", "{f} 必须是{a}"},
	seckill.RuleMin:      {"{f} must be at least {a}", "{f} 不能小于 {a}"},
	seckill.RuleMax:      {"{f} must be at most {a}", "{f} 不能大于 {a}"},
	seckill.RuleLength:   {"{f} must be at most {a} bytes long", "{f} 不能超过 {a} 字节"},
	seckill.RuleOneOf:    {"{f} must be one of: {a}", "{f} 只能是以下之一：{a}"},
	seckill.RuleFormat:   {"{f} must be {a}", "{f} 的格式应为：{a}"},
	seckill.RuleAfter:    {"{f} must be later than {a}", "{f} 必须晚于 {a}"},
	seckill.RuleUnknown:  {"{f} is not a known field", "不认识的字段：{f}"},
	seckill.RuleRepeated: {"{f} must be given only once", "{f} 只能出现一次"},
}

// typesZH are the types of RuleType in Chinese.
var typesZH = map[string]string{
	"integer": "整数", "string": "字符串", "boolean": "布尔值（true 或 false）", "object": "对象", "array": "数组",
	"time": "时间（RFC 3339，例如 2026-11-11T12:00:00Z）", "number": "数字",
}

// FieldMsg says what is wrong with a field, and what is accepted.
func FieldMsg(f seckill.FieldError, l Lang) string {
	form, ok := rules[f.Rule]
	if !ok {
		form = [langs]string{"{f} is not valid: " + string(f.Rule) + " {a}", "{f} 无效：" + string(f.Rule) + " {a}"}
	}
	arg := f.Arg
	if f.Rule == seckill.RuleType {
		if zh, ok := typesZH[arg]; ok && l == ZH {
			arg = zh
		} else if arg == "time" {
			arg = "time (RFC 3339, such as 2026-11-11T12:00:00Z)"
		}
	}
	// One pass, so that a field named "{a}" is not taken for a mark.
	return strings.NewReplacer("{f}", f.Field, "{a}", arg).Replace(form[l])
}

// fieldsShown is how many fields the message for people names; the list has them all.
const fieldsShown = 3

func fieldsMsg(fields []seckill.FieldError, l Lang) string {
	var b strings.Builder
	b.WriteString([langs]string{"The request is not valid: ", "请求有误："}[l])
	for i, f := range fields[:min(len(fields), fieldsShown)] {
		if i > 0 {
			b.WriteString([langs]string{"; ", "；"}[l])
		}
		b.WriteString(FieldMsg(f, l))
	}
	if len(fields) > fieldsShown {
		b.WriteString([langs]string{"; and more", "；等"}[l])
	}
	b.WriteString([langs]string{".", "。"}[l])
	return b.String()
}
