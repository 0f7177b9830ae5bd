export default {
  app: '秒杀', nav: '页面', skip: '跳到正文', close: '关闭', on: '开', off: '关', yes: '是', no: '否', again: '重试', loading: '加载中…', logout: '退出', unit: '件', units: '件', seconds: '秒', zone: '时间为 {zone} 时区；指针停在时间上可看 UTC。',
  'nav.overview': '总览', 'nav.activities': '活动', 'nav.activity': '活动', 'nav.orders': '订单', 'nav.switches': '开关', 'nav.dead': '死信', 'nav.reconcile': '对账', 'nav.access': '访问控制', 'nav.nodes': '节点', 'nav.webhooks': '回调', 'nav.plan': '容量规划', 'nav.audit': '审计', 'nav.accounts': '账号', 'nav.login': '登录',
  'theme.dark': '深色主题', 'theme.light': '浅色主题',
  'pill.stock': '库存', 'pill.queue': '队列', 'pill.database': '数据库', 'pill.nodes': '节点', 'pill.good': '正常', 'pill.warn': '部分节点异常', 'pill.bad': '异常', 'pill.unknown': '未知',
  'live.live': '实时', 'live.connecting': '连接中…', 'live.stale': '已 {span}没有新数据', 'live.stale_never': '没有实时数据',
  'span.s': '{n} 秒', 'span.min_s': '{m} 分 {s} 秒', 'span.min': '{n} 分钟', 'span.h_min': '{h} 小时 {m} 分', 'span.h': '{n} 小时', 'span.d': '{n} 天', 'span.ago': '{span}前',
  'error.offline': '服务器没有应答。所见可能已过时；就目前所知，没有任何改动。', 'error.status': '服务器返回了状态 {status}。',

  'login.title': '秒杀控制台', 'login.way': '登录方式', 'login.token': '管理令牌', 'login.account': '账号', 'login.token_label': '管理令牌', 'login.name': '用户名', 'login.password': '密码', 'login.enter': '登录', 'login.missing': '请填写空着的项。',
  'login.ended': '登录已失效，请重新登录，之后回到原来的页面。', 'login.wrong.token': '令牌不对。', 'login.wrong.account': '用户名或密码不对，或账号已停用。',
  'login.help.token': '启动服务时设置的令牌（--admin-token）。“seckill demo” 会打印出来。', 'login.help.account': '账号由管理员在“账号”页创建。',
  'role.viewer': '只读', 'role.operator': '运营', 'role.admin': '管理员', 'role.viewer.about': '可看全部，不能改动', 'role.operator.about': '可操作活动', 'role.admin.about': '可操作活动并管理账号',

  'ask.cancel': '取消', 'ask.reason': '原因', 'ask.reason_optional': '原因（可不填）', 'ask.reason_help': '连同你的名字记入审计日志。', 'ask.required': '必填。', 'ask.fields_wrong': '有些内容需要先改正，见上方。',
  'table.filter': '筛选这些行', 'table.csv': '导出 CSV', 'table.on': '加载更多', 'table.count': '{n} 行', 'table.more_than': '已加载 {n} 行', 'table.of': '{n} / {all} 行', 'table.no_match': '没有符合筛选的行。', 'table.acts': '操作',

  'books.title': '账目', 'books.total': '总数', 'books.available': '可售', 'books.queued': '排队', 'books.awaiting_payment': '待付款', 'books.paid': '已付款', 'books.dead': '死信', 'books.balanced': '账目平衡', 'books.moving': '变动中', 'books.off': '账目不平', 'books.unknown': '未知', 'books.missing': '差 {n} 件',
  'state.scheduled': '未预热', 'state.ready': '已就绪', 'state.open': '进行中', 'state.paused': '已暂停', 'state.sold_out': '已售罄', 'state.ended': '已结束',
  'order.awaiting_payment': '待付款', 'order.paid': '已付款', 'order.cancelled': '已取消', 'order.expired': '已过期',
  'outcome.accepted': '受理', 'outcome.sold_out': '售罄', 'outcome.already_purchased': '重复购买', 'outcome.rate_limited': '太频繁', 'outcome.not_started': '未开始', 'outcome.paused': '暂停', 'outcome.busy': '繁忙', 'outcome.other': '其他',
  'chart.requests': '请求', 'chart.latency': '延迟', 'chart.stock': '库存与积压', 'chart.lag': '下单延迟', 'chart.backlog': '积压',
  'vital.requests': '请求', 'vital.orders': '订单', 'vital.p99': 'p99', 'vital.backlog': '积压',
  'overview.which': '哪个活动', 'overview.run': '第 {n} 场', 'overview.details': '详情', 'overview.acts': '开关', 'overview.admit': '放行 {n} %…', 'overview.changed': '非常规状态：', 'overview.recent': '最近的改动', 'overview.all': '全部',
  'overview.stale': '实时数据停在 {time}。正在重连；其间账目另行查询。', 'overview.no_live': '目前收不到这台服务器的实时数据。正在重试；其间账目另行查询。',
  'guards.title': '自动保护', 'guards.since': '自 {time} 起', 'guards.acting': '动作中', 'guards.quiet': '未动作', 'guards.until': '自 {time} 起未动作', 'guards.none': '没有保护动作。积压过长或库存没有应答时，保护会自动停止接单，恢复后自动解除。',
  'guard.backlog.why': '等待下单的预占太多：购买请求以“繁忙”拒绝。', 'guard.backlog.figure': '{n} 个在等待；到 {high} 停止，降到 {low} 恢复', 'guard.breaker.call': '有一次调用等待应答已 {span}。', 'guard.breaker.why': '库存没有应答：购买请求立即以“繁忙”拒绝，恢复应答后自动放行。',
  'guard.backlog': '积压保护', 'guard.breaker': '熔断', 'guard.stock': '熔断', 'guard.concurrency': '并发限制', 'guard.database': '数据库缓慢',

  'switch.intake': '接单', 'switch.consumers': '订单写入', 'switch.challenge': '全员人机验证', 'switch.admission_percent': '放行比例',
  'switch.intake.about': '是否受理购买请求。', 'switch.consumers.about': '是否把预占写成订单。', 'switch.challenge.about': '是否所有活动都要求浏览器证明。', 'switch.admission_percent.about': '放行到库存的购买请求比例。',
  'switch.intake.on': '从下一秒起，买家又可以购买。', 'switch.intake.off': '买家会看到活动暂停，请稍候。已在排队的保留位置，订单照常写入。',
  'switch.consumers.on': '等待中的预占按先后写成订单。', 'switch.consumers.off': '买家仍可排队，但没有订单会被确认。积压会增长，直到积压保护停止接单。',
  'switch.challenge.on': '每个活动中，浏览器都要先计算约一秒才能购买。脚本会变慢，旧手机也会。', 'switch.challenge.off': '只有自己要求人机验证的活动才验证。',
  'switch.admission_percent.set': '每 100 个购买请求中有 {value} 个到达库存；其余会看到繁忙，可以再试。', 'switch.admission_percent.all': '所有购买请求都到达库存。',
  'switch.intake.verb.true': '恢复接单', 'switch.intake.verb.false': '暂停接单', 'switch.challenge.verb.true': '开启全员验证', 'switch.challenge.verb.false': '结束全员验证', 'switch.consumers.verb.true': '恢复订单写入', 'switch.consumers.verb.false': '暂停订单写入',
  'switch.do.on': '{name}：打开', 'switch.do.off': '{name}：关闭', 'switch.do.set': '{name}：更改', 'switch.do.later': '{name}：定时更改', 'switch.change': '更改', 'switch.schedule': '定时', 'switch.at': '何时', 'switch.dry': '试运行', 'switch.done': '{name}现在为：{value}', 'switch.scheduled': '已定时。',

  'activities.about': '卖什么、何时卖、还剩多少。', 'activities.create': '创建活动', 'activities.empty': '还没有活动。创建第一个只需名称、库存和时间。',
  'activity.name': '名称', 'activity.description': '说明', 'activity.state': '状态', 'activity.run': '场次', 'activity.stock': '库存', 'activity.price': '价格', 'activity.starts_at': '开始', 'activity.ends_at': '结束', 'activity.lasts': '时长', 'activity.limit': '每人限购', 'activity.payment_window': '付款时限', 'activity.preload_before': '提前预热', 'activity.sub_stocks': '分桶数', 'activity.sub_stocks.help': '每秒购买约 5 万以内，1 即可。', 'activity.audience': '谁可购买', 'activity.audience.help': '名单在创建后上传。', 'activity.challenge': '人机验证', 'activity.challenge.help': '浏览器先完成计算证明再购买。', 'activity.entry_token': '入场令牌', 'activity.entry_token.help': '只有页面放行的人可购买。', 'activity.created_at': '创建于', 'activity.books': '账目', 'activity.watch': '实时观看', 'activity.settings': '设置', 'activity.history': '操作记录',
  'audience.everyone': '所有人', 'audience.listed': '仅名单内买家', 'audience.everyone.about': '所有人都可购买。', 'audience.buyers': '位买家在名单中', 'audience.updated': '更新于', 'audience.none': '名单为空：没有人可以购买。', 'audience.file': '新名单，将替换现有名单', 'audience.help': '文本文件，每行一个买家编号；或 JSON 数组。', 'audience.reading': '读取中… {n} 行', 'audience.read': '文件中有 {n} 位买家。', 'audience.wrong': '第 {n} 行不是买家编号：{id}', 'audience.send': '上传', 'audience.storing': '已发送，正在保存…', 'audience.done': '名单现有 {n} 位买家。',
  'do.preload': '预热', 'do.preload.effect': '现在就把库存装好，不等开始之前。买家看不出区别。', 'do.preload.done': '{name} 已预热。',
  'do.pause': '暂停', 'do.pause.effect': '此活动的买家会看到暂停。已在排队的保留位置。', 'do.pause.done': '{name} 已暂停。',
  'do.resume': '恢复', 'do.resume.effect': '买家立即可以继续购买。', 'do.resume.done': '{name} 已恢复。',
  'do.close': '关闭', 'do.close.effect': '活动立即结束，不可撤销。买家会看到已结束；已有的预占和订单保留。只有再次开售才能重新打开。', 'do.close.done': '{name} 已关闭。',
  'do.restock': '补货', 'do.restock.effect': '库存立即变化，进行中也可以。看到“售罄”的买家又可以购买。', 'do.restock.quantity': '件数', 'do.restock.help': '负数为减少，最多减可售的 {n} 件。', 'do.restock.then': '之后可售', 'do.restock.done': '{name} 库存变动 {n} 件。', 'do.restock.pending': '已记下。库存暂无应答，恢复后补货。',
  'do.rerun': '再次开售', 'do.rerun.effect': '新的一场，库存独立。上一场买过的人可以再买。', 'do.rerun.done': '{name} 再次开售。',
  'create.at_once': '开始时间已过：活动将立即预热并开放。', 'create.sells': '出售', 'create.done': '已创建 {name}，编号 {id}。',
  'audit.empty': '还没有任何改动。',

  'orders.about': '一位买家在所有活动中的订单。', 'orders.find': '查询', 'orders.empty': '输入商城里的买家编号，查看其订单。', 'orders.none': '买家 {buyer} 没有订单。',
  'order.id': '订单', 'order.buyer': '买家', 'order.quantity': '件数', 'order.amount': '金额', 'order.created_at': '下单时间', 'order.pay_before': '付款期限', 'order.payment_ref': '付款单号', 'order.payment_ref.help': '支付平台上的单号。', 'order.ticket': '凭证', 'order.mark_paid': '标记已付款', 'order.mark_paid.effect': '通常由商城的支付系统自行通知。此后订单不会过期，也不能取消。', 'order.mark_paid.done': '订单 {id} 已付款。',

  'switch.refused': '目前每秒 {n} 个购买请求，其中约 {refused} 个会被拒绝。', 'switches.stale': '数据库无法查询；这是 {span}前的状态。',
  'switches.about': '每个开关一秒内在所有节点生效，库存或队列故障时也一样。', 'switch.unusual': '通常为 {value}', 'switch.never': '从未改动。', 'switch.later': '定时…', 'switch.unschedule': '取消定时', 'switch.unscheduled': '已取消定时。',

  'dead.about': '未能成为订单的预占和消息。它们的库存搁置，等人决定。', 'dead.empty': '没有死信。所有预占都已成为订单，或即将成为订单。', 'dead.at': '时间', 'dead.attempts': '次数', 'dead.reason': '原因', 'dead.message': '消息原文', 'dead.retry': '重试', 'dead.retry.effect': '若原因已排除，现在就写订单。不会重复执行。', 'dead.drop': '丢弃', 'dead.drop.return': '买家的凭证将失败，库存重新开售。不可撤销。', 'dead.drop.keep': '买家的凭证将失败，库存不再开售。不可撤销。', 'dead.return_stock': '库存重新开售', 'dead.return_stock.help': '若商品已另行处理，请勿勾选。', 'dead.dropped': '已丢弃。',
  'dead.became.settled': '已处理：{outcome}', 'dead.became.dead': '再次失败：{reason}', 'dead.became.retrying': '数据库或库存没有应答，稍后自动重试。', 'ticket.confirmed': '订单已写入', 'ticket.failed': '被拒绝', 'ticket.queued': '等待中',

  'reconcile.about': '逐件比对库存、队列和数据库。', 'reconcile.compare': '比对', 'reconcile.repair': '修复', 'reconcile.repair.effect': '差异以数据库为准修正，不会收回任何订单。活动进行中也安全。', 'reconcile.findings': '发现', 'reconcile.at': '比对于 {time}', 'reconcile.none': '没有差异。', 'reconcile.empty': '选择活动并比对。比对不改动任何数据。', 'reconcile.done': '已修复，详见发现。',
  'finding.kind': '类型', 'finding.detail': '详情', 'finding.repaired': '已修复', 'finding.oversold': '超卖', 'finding.lost_unit': '丢失库存', 'finding.orphan_reservation': '孤立预占', 'finding.missing_order': '缺失订单', 'finding.stock_drift': '库存偏差', 'finding.transfer_unfinished': '未完成的调拨',

  'access.about': '谁不能购买。封禁一秒内在所有节点生效。', 'block.kind': '类型', 'block.kind.ip': '地址', 'block.kind.cidr': '网段', 'block.kind.user': '买家', 'block.kind.device': '设备', 'block.value': '值', 'block.why': '原因', 'block.until': '截止', 'block.ends': '到期自动解除', 'block.for_good': '直到手动解除', 'block.source': '来源', 'block.source.operator': '手动', 'block.source.automatic': '自动', 'block.by': '操作者', 'block.created_at': '时间', 'block.add': '添加封禁', 'block.add.effect': '被封禁者最先被拒绝。已有订单保留。', 'block.added': '已封禁 {value}。', 'block.remove': '解除', 'block.remove.effect': '一秒内可再次购买。', 'block.removed': '{value} 可再次购买。', 'block.empty': '没有封禁。严重滥用会被自动限时封禁，并列在这里。',

  'nodes.about': '本系统的 {n} 个进程，以最近一次上报为准。', 'nodes.empty': '还没有节点上报。', 'node.id': '节点', 'node.address': '地址', 'node.roles': '角色', 'node.role.gateway': '网关', 'node.role.worker': '工作节点', 'node.role.console': '控制台', 'node.ready': '就绪', 'node.is_ready': '就绪', 'node.not_ready': '未就绪', 'node.version': '版本', 'node.started_at': '启动于', 'node.seen_at': '最近上报', 'node.fine': '正常',

  'plan.about': '一场活动会带来多少请求，需要准备多少节点。', 'plan.participants': '参与人数', 'plan.people': '人', 'plan.clicks': '每人点击', 'plan.clicks.help': '一位买家发出的请求数。', 'plan.duration': '时长', 'plan.peak_factor': '峰值系数', 'plan.peak_factor.help': '峰值与均值之比；多数人在最初几秒涌入。', 'plan.headroom': '余量', 'plan.headroom.help': '0.5 即在峰值上再加一半。', 'plan.node_qps': '单节点承载', 'plan.node_qps.help': '可实测：seckill bench。', 'plan.result': '结果', 'plan.total_requests': '总请求', 'plan.mean_qps': '平均', 'plan.peak_qps': '峰值', 'plan.provision_qps': '按此准备', 'plan.nodes': '节点数', 'plan.formula': '人数 × 点击 ÷ 时长 = 平均；× 峰值系数 = 峰值；×（1 + 余量）= 按此准备；÷ 单节点承载 = 节点数。',

  'audit.about': '谁、何时、从哪里、为什么改了什么。记录永不删除。', 'audit.at': '时间', 'audit.who': '操作者', 'audit.from': '来自', 'audit.action': '操作', 'audit.object': '对象', 'audit.reason': '原因', 'audit.detail': '详情', 'audit.show': '查看',
  'action.activity.create': '创建', 'action.activity.preload': '预热', 'action.activity.pause': '暂停', 'action.activity.resume': '恢复', 'action.activity.close': '关闭', 'action.activity.restock': '补货', 'action.activity.rerun': '再次开售', 'action.activity.reconcile': '修复账目', 'action.switch.set': '改开关', 'action.switch.schedule': '定时改开关', 'action.dead_letter.drop': '丢弃死信', 'action.dead_letter.retry': '重试死信', 'action.order.paid': '订单付款', 'action.block.add': '封禁', 'action.block.remove': '解除封禁', 'action.audience.set': '更换名单', 'action.account.create': '添加账号', 'action.account.change': '更改账号', 'action.account.remove': '删除账号',

  'accounts.about': '除持有管理令牌者外，谁可使用此控制台。', 'accounts.empty': '还没有账号：只有管理令牌能打开控制台。给每人一个账号，审计日志才能分清是谁。', 'account.role': '角色', 'account.you': '（你）', 'account.is_enabled': '启用', 'account.is_disabled': '已停用', 'account.add': '添加账号', 'account.add.effect': '密码请当面交付；可在此更换，但不会再显示。', 'account.added': '{name} 可以登录了。', 'account.changed': '{name} 已更改。', 'account.removed': '{name} 已删除。', 'account.change_role': '角色', 'account.new_password': '密码', 'account.new_password.effect': '旧密码立即失效，已登录的会话随之结束。', 'account.password.help': '至少 12 个字符。', 'account.enable': '启用', 'account.enable.effect': '可再次登录。', 'account.disable': '停用', 'account.disable.effect': '不能再登录，已登录的会话结束。', 'account.remove': '删除', 'account.remove.effect': '账号将消失，其操作仍留在审计日志中。',

  'hooks.about': '商城中接收预占与订单通知的系统：带签名、至少一次、同一订单按序、重试一天。', 'hook.url': '地址', 'hook.events': '事件', 'hook.event': '事件', 'hook.is_enabled': '启用', 'hook.is_disabled': '已停用', 'hook.add': '添加回调', 'hook.add.effect': '从现在起向该地址发送事件。除非设置允许，不接受内网地址。', 'hook.added': '已添加。', 'hook.secret': '签名密钥，仅显示这一次：', 'hook.remove': '删除', 'hook.remove.effect': '不再向该地址发送，等待中的也不再发送。', 'hook.removed': '已删除。', 'hook.deliveries': '发送记录', 'hook.empty': '还没有回调。添加后，你的系统无需查询即可得知付款。', 'hook.none_sent': '还没有发送过。', 'hook.last_error': '最近错误', 'hook.next_at': '下次尝试', 'hook.delivered_at': '送达',
  'hook.reservation.confirmed': '预占已确认', 'hook.reservation.failed': '预占失败', 'hook.order.paid': '订单已付款', 'hook.order.cancelled': '订单已取消', 'hook.order.expired': '订单已过期', 'delivery.delivered': '已送达', 'delivery.pending': '等待中', 'delivery.given_up': '已放弃', 'hook.test': '测试', 'hook.test.effect': '立即向该地址发送一条测试事件。', 'hook.test.ok': '已收到：状态 {status}，{took}。', 'hook.test.failed': '未收到：{error}', 'hook.rotate': '换密钥', 'hook.rotate.effect': '新旧密钥会同时签名一段时间，便于商城切换。', 'hook.enable': '启用', 'hook.enable.effect': '从现在起接收事件。', 'hook.enabled': '已启用。', 'hook.retry': '重新发送', 'hook.retry.effect': '立即重新发送，商城可能收到两次。', 'hook.retried': '正在发送。',
  'action.activity.loaded': '装入库存', 'action.activity.hold': '停售待重建', 'action.activity.rebuild': '重建', 'action.activity.audience': '更换名单', 'action.order.cancelled': '订单取消', 'action.order.expired': '订单过期', 'action.block.add_automatic': '自动封禁', 'action.switch.unschedule': '取消定时', 'action.reconcile.row': '修复库存行', 'action.reconcile.restock': '补完补货', 'action.reconcile.repair': '修复账目',
  'action.session.login': '登录', 'action.session.logout': '退出登录', 'action.session.refused': '登录被拒', 'action.webhook.add': '添加回调', 'action.webhook.remove': '删除回调', 'action.webhook.rotate': '更换回调密钥', 'action.webhook.enable': '启用回调', 'action.webhook.disable': '停用回调', 'action.webhook.test': '测试回调', 'action.webhook.retry': '重新发送事件', 'action.reconcile.settle': '结算预占', 'action.reconcile.rewrite': '补写丢失的预占',
  'finding.dead_letters': '死信', 'finding.in_motion': '变动中', 'finding.not_loaded': '库存未装载', 'finding.row_drift': '库存行偏差', 'finding.stale_order': '订单状态滞后', 'finding.unfinished_restock': '未完成的补货', 'finding.unfinished_todo': '未完成的变更', 'finding.unknown_order': '库存不知道的订单', 'finding.unsettled': '未结算的预占',
};
