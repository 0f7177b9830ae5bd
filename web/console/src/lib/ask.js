// One dialog for everything that changes something: it says what will happen, takes a
// reason, does it, and shows what the server says against it beside the field.

import { ElMessage } from 'element-plus/es/components/message/index.mjs';
import { shallowRef } from 'vue';

// asked is what is being asked, for parts/AskDialog.vue.
export const asked = shallowRef(null);

// ask takes
//   title, confirm   words
//   tone             'primary' or 'danger'
//   effect           what it means to buyers: text, or a function of the values (also async)
//   facts            [[label, value]], or a function of the values
//   fields           see parts/Fields.vue
//   reason           'none', 'optional' or 'required' (the default)
//   run              does it, given the values
//   done             what to say afterwards: text, or a function of the answer
// and answers what run did; undefined if it was called off.
export function ask(question) {
  return new Promise((resolve) => { asked.value = { tone: 'primary', reason: 'required', fields: [], ...question, resolve }; });
}

export const say = (message, type = 'success') => ElMessage({ message, type, duration: type === 'success' ? 3500 : 7000, showClose: true, grouping: true });
